"""Checks of constructor arguments that several methods share."""

from __future__ import annotations

import math
import operator
from typing import SupportsFloat, SupportsIndex, TypeVar

import numpy as np

T = TypeVar("T", bound=str)


def positive(name: str, value: SupportsFloat) -> float:
    """Return `value` as a float if it is a number > 0.

    Raises:
        ValueError: if it is not (NaN included).
    """
    if isinstance(value, (bool, np.bool_, str)) or not isinstance(value, SupportsFloat) or not _float(value) > 0:
        raise ValueError(f"{name} must be a number > 0, got {value!r}")
    return _float(value)


def positive_finite(name: str, value: SupportsFloat) -> float:
    """Return `value` as a float if it is a number > 0 and not infinite.

    Raises:
        ValueError: if it is not (NaN included).
    """
    number = positive(name, value)
    if number == math.inf:
        raise ValueError(f"{name} must be a finite number > 0, got {value!r}")
    return number


def nonnegative_finite(name: str, value: SupportsFloat) -> float:
    """Return `value` as a float if it is a number >= 0 and not infinite.

    Raises:
        ValueError: if it is not (NaN included).
    """
    number = isinstance(value, SupportsFloat) and not isinstance(value, (bool, np.bool_, str))
    if not number or not 0 <= _float(value) < math.inf:
        raise ValueError(f"{name} must be a finite number >= 0, got {value!r}")
    return _float(value)


def boolean(name: str, value: bool) -> bool:
    """Return `value` if it is True or False, and not merely something that counts as true.

    Raises:
        TypeError: if it is not.
    """
    if not isinstance(value, bool):
        raise TypeError(f"{name} must be True or False, got {value!r}")
    return value


def _float(value: SupportsFloat) -> float:
    try:
        return float(value)
    except OverflowError:  # an integer beyond the range of floats
        return math.inf if value > 0 else -math.inf  # type: ignore[operator]


def positive_int(name: str, value: SupportsIndex) -> int:
    """Return `value` as an int if it is an integer >= 1.

    Raises:
        ValueError: if it is not.
    """
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, SupportsIndex) or operator.index(value) < 1:
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
