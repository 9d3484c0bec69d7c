"""The command lines of the studies, and what they refuse before anything is run."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from jsonargparse import ArgumentParser

__all__ = ["Command", "checked", "folder", "jobs", "read_command"]

T = TypeVar("T")

_CONFIGS = Path(__file__).parents[2] / "configs"


@dataclass(frozen=True)
class Command(Generic[T]):
    """What a command line asks for.

    Attributes:
        study: What is run.
        output: The folder of results, which exists.
        jobs: How many runs at a time.
        text: The command itself, for the report.
    """

    study: T
    output: Path
    jobs: int
    text: str


def read_command(
    name: str, description: str, kind: type[T], arguments: Sequence[str] | None = None, *, config: str | None = None
) -> Command[T]:
    """Read the command line of ``python -m recipes.<name>``: the study, its folder, how many runs at a time.

    Args:
        name: Of the package of the study, of its folder under `outputs`, and of that under `configs`.
        description: For ``--help``.
        kind: The dataclass of the study; its ValueErrors become errors of the command line.
        arguments: Words of the command line; those of this process by default.
        config: Name of the configuration that is read where none is given; results go to a folder of the
            configuration's name. Without it the study begins with the defaults of its dataclass.
    """
    program = f"python -m recipes.{name}"
    output = Path("outputs") / name
    given = list(sys.argv[1:] if arguments is None else arguments)
    parser = ArgumentParser(prog=program, description=description)
    if config is None:
        parser.add_argument("--study", type=kind, default=kind(), help="what is run")
        parser.add_argument("--output", type=Path, default=output, help="folder of runs and report")
    else:
        parser.add_argument("--config", action="config", help=f"study; default configs/{name}/{config}.yaml")
        parser.add_argument("--study", type=kind, help="what is run")
        parser.add_argument("--output", type=Path, help=f"folder of runs and report; default {output}/<file name>")
    parser.add_argument("--jobs", type=int, default=1, help="runs at a time")
    default = []
    if config is not None and not any(word.startswith(("--config", "--help", "-h")) for word in given):
        default = [f"--config={_CONFIGS / name / config}.yaml"]
    parsed = parser.parse_args([*default, *given])
    at_a_time = jobs(parser, parsed.jobs)
    instantiate = getattr(parser, "instantiate", None) or parser.instantiate_classes  # renamed in jsonargparse 4.49
    study: T = checked(parser, lambda: instantiate(parsed).study)
    made = folder(parser, parsed.output or output / Path(str(parsed.config[0])).stem)
    return Command(study, made, at_a_time, shlex.join([*program.split(), *given]))


def checked(parser: ArgumentParser, make: Callable[[], T]) -> T:
    """What `make` makes; its ValueError becomes an error of the command line."""
    try:
        return make()
    except ValueError as error:
        parser.error(str(error))


def folder(parser: ArgumentParser, path: Path) -> Path:
    """The folder of results, made if need be; an error of the command line if that cannot be."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        parser.error(f"--output must be a folder, or one that can be made; got {path} ({error.strerror})")
    return path


def jobs(parser: ArgumentParser, given: int) -> int:
    """How many runs at a time."""
    if given < 1:
        parser.error(f"--jobs must be at least 1, got {given}")
    return given
