"""What is measured on a run and over seeds: time to target, the best point of a grid, speed-up with its spread."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeVar

from lightning_async.cli.compare.schema import Target
from lightning_async.target import reached

if TYPE_CHECKING:
    from lightning_async.cli.compare.results import RunResult

P = TypeVar("P")


def time_to_target(times: Sequence[float], values: Sequence[float], target: Target) -> float | None:
    """Returns the logical time of the first evaluation at which the running mean reaches the target.

    The mean is over the last `target.window` evaluations, so nothing is reached before there are that many.

    Args:
        times: Logical time of every evaluation, increasing.
        values: The metric at every evaluation.
        target: What to reach.

    Returns:
        The time, None if the target is never reached.

    Example:
        >>> time_to_target([2.0, 4.0, 6.0], [0.7, 0.9, 0.8], Target("val/acc", 0.8, window=2))
        4.0
    """
    for last in range(target.window - 1, len(times)):
        if reached(values[last + 1 - target.window : last + 1], target.value, target.mode):
            return times[last]
    return None


@dataclass(frozen=True)
class Outcome:
    """One run against the target.

    Attributes:
        arrived: Time to target, None for a run that did not get there.
        budget: Logical time the run was given; a run that did not arrive is censored there.
        final: Mean of the target's metric over the last window.
        status: Status of the run.
    """

    arrived: float | None
    budget: float
    final: float
    status: Literal["finished", "diverged", "failed"] = "finished"

    @property
    def restricted(self) -> float:
        """Time to target, or the budget if it was not reached: never more than the true time."""
        return self.budget if self.arrived is None else self.arrived


def outcome(result: RunResult, target: Target, budget: float, positions: Sequence[float] | None = None) -> Outcome:
    """Measures a run.

    Args:
        result: The run.
        target: What to reach.
        budget: What the run was given, in the unit of the axis.
        positions: Where on the axis its evaluations are; in logical time if None.

    Raises:
        KeyError: If the run never logged the target's metric.
    """
    if result.status == "failed":
        return Outcome(None, budget, math.nan, "failed")
    if target.metric not in result.metrics:
        raise KeyError(
            f"the runs log no {target.metric!r}; target.metric must be one of {', '.join(sorted(result.metrics))}"
        )
    values = result.metrics[target.metric]
    last = values[-target.window :]
    final = math.nan if result.status == "diverged" else math.fsum(last) / len(last)
    where = result.times if positions is None else positions
    return Outcome(time_to_target(where, values, target), budget, final, result.status)


def better_point(outcomes: Mapping[P, Sequence[Outcome]], target: Target) -> P:
    """Returns the best point of a grid.

    The smallest mean time to target wins, and a run that did not arrive is worse than any that did: points are ranked
    by the number of runs that did not arrive, then by the mean time of those that did, then by the final metric.
    """

    def rank(point: P) -> tuple[int, float, float]:
        runs = outcomes[point]
        arrived = [o.arrived for o in runs if o.arrived is not None]
        mean_time = math.fsum(arrived) / len(arrived) if arrived else math.inf
        final = math.fsum(o.final for o in runs) / len(runs)
        worse = -final if target.mode == "max" else final
        return len(runs) - len(arrived), mean_time, worse if math.isfinite(worse) else math.inf

    return min(outcomes, key=rank)


@dataclass(frozen=True)
class Estimate:
    """A mean over seeds.

    Attributes:
        mean: The mean.
        error: Standard error of the mean, NaN with fewer than two values.
        count: Number of values.
        bound: `=` for an estimate; `>` if some values are only known to be larger, `<` to be smaller; `?` if nothing
            can be said.
    """

    mean: float
    error: float
    count: int
    bound: Literal["=", ">", "<", "?"] = "="


def _estimate(values: Sequence[float], bound: Literal["=", ">", "<", "?"] = "=") -> Estimate:
    count = len(values)
    if not count:
        return Estimate(math.nan, math.nan, 0, "?")
    mean = math.fsum(values) / count
    if count < 2:
        return Estimate(mean, math.nan, count, bound)
    variance = math.fsum((v - mean) ** 2 for v in values) / (count - 1)
    return Estimate(mean, math.sqrt(variance / count), count, bound)


def mean_time(outcomes: Sequence[Outcome]) -> Estimate:
    """Returns the mean time to target; with runs that did not arrive, a lower bound of it."""
    known = [o for o in outcomes if o.status != "failed"]
    return _estimate([o.restricted for o in known], "=" if all(o.arrived is not None for o in known) else ">")


def mean_final(outcomes: Sequence[Outcome]) -> Estimate:
    """Returns the mean of the final metric over the runs that have one."""
    return _estimate([o.final for o in outcomes if math.isfinite(o.final)])


def speed_up(reference: Mapping[int, Outcome], other: Mapping[int, Outcome]) -> Estimate:
    """Returns how many times faster `other` reaches the target than `reference`, paired by seed.

    The mean of the ratios reference / other over the seeds, with its standard error. A run that did not arrive enters
    with its budget, which makes the mean a lower bound if it is the reference's, an upper bound if it is the other's.
    Seeds of which neither arrived say nothing and are left out of the count, and so are those for which `other` needed
    nothing at all (of another axis, such as the bits of replicas that never communicate): they have no ratio.

    Example:
        >>> at = lambda t: Outcome(t, 100.0, 0.9)
        >>> speed_up({0: at(60.0), 1: at(40.0)}, {0: at(30.0), 1: at(40.0)})
        Estimate(mean=1.5, error=0.5, count=2, bound='=')
    """
    ratios = []
    lower = upper = False
    for seed in reference.keys() & other.keys():
        first, second = reference[seed], other[seed]
        if "failed" in (first.status, second.status) or (first.arrived is None and second.arrived is None):
            continue
        if second.restricted == 0:
            continue
        lower |= first.arrived is None
        upper |= second.arrived is None
        ratios.append(first.restricted / second.restricted)
    if lower and upper:
        return Estimate(math.nan, math.nan, len(ratios), "?")
    return _estimate(ratios, ">" if lower else "<" if upper else "=")
