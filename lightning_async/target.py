"""When a metric has reached a target, evaluated on a grid of logical time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np


def held_multiples(time: float, next_time: float | None, every: float, until: float) -> range:
    """At which multiples of `every` an iterate is current, beside the first; 0 does not count as one.

    Args:
        time: when the iterate was made.
        next_time: when the next iterate was made that is current at a multiple; None if there is none.
        every: the distance of the multiples.
        until: if there is none, up to when the iterate is current.

    Returns:
        Their numbers.

    Example:
        >>> held_multiples(2.5, 9.0, every=2.0, until=20.0), held_multiples(9.0, None, every=2.0, until=14.0)
        (range(3, 5), range(6, 8))
    """
    end = math.floor(until / every + 1e-9) + 1 if next_time is None else math.ceil(next_time / every)
    return range(max(1, math.ceil(time / every)) + 1, end)


def reached(last: Sequence[float], value: float, mode: Literal["max", "min"]) -> bool:
    """Whether the mean of the last evaluations of a metric is at least (`max`) or at most (`min`) a value.

    Compared in single precision, in which metrics are logged: 820 of 1,000 is 0.8199999928 there, and does reach 0.82.

    Example:
        >>> reached([0.8199999928], 0.82, "max"), reached([0.81, 0.83], 0.82, "min"), reached([0.819], 0.82, "max")
        (True, True, False)
    """
    mean, goal = np.float32(math.fsum(last) / len(last)), np.float32(value)
    return bool(mean >= goal if mode == "max" else mean <= goal)
