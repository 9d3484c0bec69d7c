"""How many times longer one method needs than another, for all pairs of a panel's methods."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lightning_async.cli.compare.measures import Estimate, Outcome, better_point, speed_up
from lightning_async.cli.compare.schema import Target
from lightning_async.cli.compare.summary import Line
from lightning_async.student import student_quantile


@dataclass(frozen=True)
class Ratio:
    """What one method needs until the target over what another one needs.

    Attributes:
        estimate: Mean of the ratios paired by seed, as in the column of speed-ups; a bound if runs did not arrive.
        low: Lower end of Student's 95 % interval of the mean, NaN for a bound and with fewer than two pairs.
        high: Its upper end.
    """

    estimate: Estimate
    low: float
    high: float


def ratio(first: Mapping[int, Outcome], second: Mapping[int, Outcome]) -> Ratio:
    """Returns how many times longer `first` needs than `second`, which is the speed-up of `second` over `first`.

    Args:
        first: Outcomes by seed.
        second: Outcomes by seed, on the same axis.

    Example:
        >>> at = lambda t: Outcome(t, 100.0, 0.9)
        >>> found = ratio({0: at(60.0), 1: at(40.0), 2: at(50.0)}, {0: at(30.0), 1: at(40.0), 2: at(25.0)})
        >>> round(found.estimate.mean, 3), round(found.low, 3), round(found.high, 3)
        (1.667, 0.232, 3.101)
    """
    estimate = speed_up(first, second)
    half = math.nan
    if estimate.bound == "=" and estimate.count > 1:
        half = student_quantile(0.975, estimate.count - 1) * estimate.error
    return Ratio(estimate, estimate.mean - half, estimate.mean + half)


def all_ratios(lines: Sequence[Line]) -> dict[tuple[str, str], Ratio]:
    """Returns the ratio of every method to every other one, by their names.

    A mean of ratios is not one over the mean of their inverses, so that both directions are needed.
    """
    return {
        (line.entry.name, other.entry.name): ratio(line.outcomes, other.outcomes)
        for line in lines
        for other in lines
        if line is not other
    }


def best(lines: Sequence[Line], target: Target) -> Line:
    """Returns the line that wins as a point of a grid does: most runs that arrived, then the smallest mean."""
    return lines[better_point({place: list(line.outcomes.values()) for place, line in enumerate(lines)}, target)]
