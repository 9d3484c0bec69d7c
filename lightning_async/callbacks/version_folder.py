"""A folder of its own for every run."""

from __future__ import annotations

import itertools
from pathlib import Path

from lightning.fabric.utilities.exceptions import MisconfigurationException


def new_version(folder: str) -> Path:
    """Make the next of the folders `version_0`, `version_1`, ... in `folder`, as Lightning's loggers count them.

    Raises:
        MisconfigurationException: if it cannot be made.
    """
    root = Path(folder)
    try:
        root.mkdir(parents=True, exist_ok=True)
        numbers = [path.name.removeprefix("version_") for path in root.glob("version_*")]
        for number in itertools.count(1 + max((int(n) for n in numbers if n.isdecimal()), default=-1)):
            try:
                (version := root / f"version_{number}").mkdir()
            except FileExistsError:  # by a run that begins at the same time
                continue
            return version
    except OSError as error:
        raise MisconfigurationException(
            f"there can be no plots in folder={str(folder)!r}: {error}. Give the path of a folder that "
            f"can be written to, or None for no plots."
        ) from error
    raise AssertionError("counting does not end")
