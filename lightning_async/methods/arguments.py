"""Checks of constructor arguments that several methods share."""

from __future__ import annotations

import operator
from typing import SupportsFloat, SupportsIndex, TypeVar

T = TypeVar("T", bound=str)


def positive(name: str, value: SupportsFloat) -> float:
    """Return `value` as a float if it is a number > 0.

    Raises:
        ValueError: if it is not (NaN included).
    """
    if isinstance(value, (bool, str)) or not isinstance(value, SupportsFloat) or not float(value) > 0:
        raise ValueError(f"{name} must be a number > 0, got {value!r}")
    return float(value)


def positive_int(name: str, value: SupportsIndex) -> int:
    """Return `value` as an int if it is an integer >= 1.

    Raises:
        ValueError: if it is not.
    """
    if isinstance(value, bool) or not isinstance(value, SupportsIndex) or operator.index(value) < 1:
        raise ValueError(f"{name} must be an integer >= 1, got {value!r}")
    return operator.index(value)


def one_of(name: str, value: T, allowed: tuple[T, ...]) -> T:
    """Return `value` if it is allowed.

    Raises:
        ValueError: if it is not.
    """
    if value not in allowed:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, allowed))}, got {value!r}")
    return value
