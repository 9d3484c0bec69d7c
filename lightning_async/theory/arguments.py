"""Checks of the constants that formulas take."""

import math
import operator
from typing import SupportsIndex

import numpy as np
from numpy.typing import ArrayLike, NDArray


def positive(name: str, value: float) -> float:
    """A finite number above zero."""
    if not 0 < value < math.inf:
        raise ValueError(f"{name}={value} must be positive and finite")
    return float(value)


def nonnegative(name: str, value: float) -> float:
    """A finite number that is at least zero."""
    if not 0 <= value < math.inf:
        raise ValueError(f"{name}={value} must be zero or positive, and finite")
    return float(value)


def count(name: str, value: SupportsIndex) -> int:
    """An integer that is at least one."""
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"{name}={value!r} must be an integer >= 1")
    if operator.index(value) < 1:
        raise ValueError(f"{name}={value} must be at least 1")
    return operator.index(value)


def worker_times(times: ArrayLike) -> NDArray[np.float64]:
    """Times of one gradient, sorted; infinite for a worker that never answers."""
    array = np.sort(np.asarray(times, dtype=np.float64))
    if array.ndim != 1 or array.size == 0:
        raise ValueError(f"times has shape {array.shape}; give one positive time for each of at least one worker")
    if not array[0] > 0 or np.isnan(array).any():
        raise ValueError(f"times holds {array[0] if array[0] <= 0 else 'nan'}; every time must be positive")
    if not np.isfinite(array[0]):
        raise ValueError("times are all infinite: at least one worker must answer")
    return array
