"""Quantiles of Student's distribution, for intervals of a mean over a few seeds."""

from __future__ import annotations

import math

__all__ = ["student_quantile"]


def student_quantile(probability: float, freedom: int) -> float:
    """Returns the quantile of Student's distribution.

    From the finite series for whole degrees of freedom, Abramowitz and Stegun, 26.7.3 and 26.7.4.

    Args:
        probability: At least one half, less than one.
        freedom: Degrees of freedom, at least 1: the number of values less one.

    Raises:
        ValueError: If an argument is out of its range.

    Example:
        >>> round(student_quantile(0.975, 7), 3)
        2.365
    """
    if not 0.5 <= probability < 1:
        raise ValueError(f"probability must be at least 0.5 and less than 1, got {probability}")
    if freedom < 1:
        raise ValueError(f"freedom must be at least 1 (two values have one), got {freedom}")
    # With t = sqrt(freedom) tan(angle) the probability grows with the angle, on a finite range.
    low, high = 0.0, math.pi / 2
    while low < (middle := (low + high) / 2) < high:
        if _within(middle, freedom) < 2 * probability - 1:
            low = middle
        else:
            high = middle
    return math.sqrt(freedom) * math.tan(middle)


def _within(angle: float, freedom: int) -> float:
    """The probability of a value between -t and t."""
    odd = freedom % 2
    term = math.cos(angle) if odd else 1.0
    terms = [term] if freedom > 1 else []
    for k in range(2 if odd else 1, freedom - 2, 2):
        term *= math.cos(angle) ** 2 * k / (k + 1)
        terms.append(term)
    partial = math.sin(angle) * math.fsum(terms)
    return 2 / math.pi * (angle + partial) if odd else partial
