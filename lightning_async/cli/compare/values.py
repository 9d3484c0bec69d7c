"""Values of a comparison file, each checked as it is read; errors say where in the file.

All of them raise `ComparisonError`.
"""

from __future__ import annotations

import math
from dataclasses import MISSING, fields
from typing import TypeVar, cast

from lightning_async.cli.compare.configuration import ComparisonError, Config, Value, number
from lightning_async.cli.nearest import nearest

T = TypeVar("T")


def read_keys(kind: type[T], content: Value, where: str) -> T:
    """Returns a section of the file as its dataclass; refuses keys that it does not have."""
    mapping = read_mapping(content, where)
    known = {f.name: f for f in fields(kind)}  # type: ignore[arg-type]
    for key in mapping:
        if key not in known:
            raise ComparisonError(f"{where}: unknown key {key!r}; {nearest(str(key), known)}")
    missing = [
        name
        for name, f in known.items()
        if name not in mapping and f.default is MISSING and f.default_factory is MISSING
    ]
    if missing:
        raise ComparisonError(f"{where}: missing {', '.join(missing)}")
    return kind(**mapping)


def read_mapping(value: Value, where: str) -> Config:
    """Returns a mapping whose keys are text."""
    if not isinstance(value, dict):
        raise ComparisonError(f"{where}: expected a mapping, got {value!r}")
    for key in value:
        if not isinstance(key, str):  # YAML reads 1, 0.5, yes and null as something else than text
            raise ComparisonError(f"{where}: names must be text, got {key!r}; put it in quotes: {str(key)!r}")
    return value


def read_list(value: Value, where: str) -> list[Value]:
    """Returns a list that is not empty; a single value is a list of one."""
    values: list[Value] = value if isinstance(value, list) else [value]
    if not values:
        raise ComparisonError(f"{where}: the list is empty")
    return values


def read_text(value: Value, where: str) -> str:
    """Returns text that is not empty."""
    if not isinstance(value, str) or not value:
        raise ComparisonError(f"{where}: expected text, got {value!r}")
    return value


def read_flag(value: Value, where: str) -> bool:
    """Returns true or false."""
    if not isinstance(value, bool):
        raise ComparisonError(f"{where}: expected true or false, got {value!r}")
    return value


def read_positive(value: Value, where: str) -> float:
    """Returns a positive, finite number of units of logical time."""
    parsed = number(value, where)
    if not (parsed > 0 and math.isfinite(parsed)):
        raise ComparisonError(f"{where}: must be positive and finite (units of logical time), got {value!r}")
    return parsed


def read_seeds(value: Value, where: str) -> tuple[int, ...]:
    """Returns different seeds."""
    seeds = read_list(value, where)
    for seed in seeds:
        if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed < 2**32:
            raise ComparisonError(f"{where}: seeds are integers of at least 0 and at most 2^32 - 1, got {seed!r}")
    if len(set(map(str, seeds))) != len(seeds):
        raise ComparisonError(f"{where}: a seed appears twice in {seeds}")
    return tuple(cast("list[int]", seeds))
