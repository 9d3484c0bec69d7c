"""The folder in which a study keeps its finished runs."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import Field, asdict
from pathlib import Path
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from lightning_async.cli.compare.results import write_atomically

__all__ = ["Results", "Run"]


class Run(Protocol):
    """A dataclass that describes a run completely."""

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    @property
    def key(self) -> str:
        """Hash of everything that determines the result: the name of its file."""

    @property
    def name(self) -> str:
        """For people."""


class _Dataclass(Protocol):
    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]


ResultT = TypeVar("ResultT", bound=_Dataclass)


class Results(Generic[ResultT]):
    """Finished runs: one file each, written whole or not at all.

    Args:
        folder: The output of the study; files are in its folder ``runs``.
        make: Makes a result of the fields that were stored; mostly the dataclass itself.
    """

    def __init__(self, folder: Path, make: Callable[..., ResultT]) -> None:
        self.folder = folder
        self._make = make

    def read(self, run: Run) -> ResultT | None:
        """The result of a run; None if there is none, or only a part of one."""
        try:
            return self._make(**json.loads(self._path(run).read_text(encoding="utf-8"))["result"])
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def write(self, run: Run, result: ResultT) -> None:
        """Store the result of a run beside its description."""
        write_atomically(self._path(run), json.dumps({"run": asdict(run), "result": asdict(result)}))

    def _path(self, run: Run) -> Path:
        return self.folder / "runs" / f"{run.key}.json"
