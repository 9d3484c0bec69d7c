"""A study of one run that ends and two that never do: ``python -m tests.recipes.hanging_study FOLDER``."""

import os
import sys
import threading
from dataclasses import dataclass
from pathlib import Path

from recipes.studies import Results, run_missing


@dataclass
class Result:
    value: int


@dataclass(frozen=True)
class Run:
    number: int
    folder: str

    @property
    def key(self) -> str:
        return self.name

    @property
    def name(self) -> str:
        return f"run-{self.number}"


def execute(run: Run) -> Result:
    """Run 0 ends; another names its process in a file, and hangs."""
    if run.number == 0:
        return Result(7)
    (Path(run.folder) / f"process-{os.getpid()}").touch()
    threading.Event().wait()
    raise AssertionError("the event was never to come")


if __name__ == "__main__":
    folder = sys.argv[1]
    runs = [Run(number, folder) for number in range(3)]
    run_missing(runs, Results(Path(folder), Result), execute, str, jobs=2)
