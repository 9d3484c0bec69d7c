"""Slopes on logarithmic axes, with intervals over seeds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lightning_async.student import student_quantile

__all__ = ["Interval", "interval", "slope"]


@dataclass(frozen=True)
class Interval:
    """A mean and the half width of its 95 % interval."""

    mean: float
    half: float

    def __str__(self) -> str:
        return f"{self.mean:.3f} +- {self.half:.3f}"

    def contains(self, value: float) -> bool:
        """Whether a value lies inside."""
        return abs(value - self.mean) <= self.half


def slope(steps: Sequence[float], errors: Sequence[float]) -> float:
    """Least-squares slope of log(errors) against log(steps).

    Example:
        >>> round(slope([1, 10, 100], [5.0, 0.5, 0.05]), 6)
        -1.0
    """
    return float(np.polyfit(np.log(steps), np.log(errors), 1)[0])


def interval(values: Sequence[float]) -> Interval:
    """Mean over seeds with Student's 95 % interval.

    Example:
        >>> print(interval([1.0, 1.2, 0.8]))
        1.000 +- 0.497
    """
    spread = float(np.std(values, ddof=1)) / math.sqrt(len(values))
    return Interval(float(np.mean(values)), student_quantile(0.975, len(values) - 1) * spread)
