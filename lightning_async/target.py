"""When a metric has reached a target."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np


def reached(last: Sequence[float], value: float, mode: Literal["max", "min"]) -> bool:
    """Whether the mean of the last evaluations of a metric is at least (`max`) or at most (`min`) a value.

    Compared in single precision, in which metrics are logged: 820 of 1,000 is 0.8199999928 there, and does reach 0.82.

    Example:
        >>> reached([0.8199999928], 0.82, "max"), reached([0.81, 0.83], 0.82, "min"), reached([0.819], 0.82, "max")
        (True, True, False)
    """
    mean, goal = np.float32(math.fsum(last) / len(last)), np.float32(value)
    return bool(mean >= goal if mode == "max" else mean <= goal)
