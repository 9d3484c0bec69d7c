"""What the command lines of the studies refuse before anything is run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from jsonargparse import ArgumentParser

__all__ = ["checked", "folder", "jobs"]

T = TypeVar("T")


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
