"""What the progress of a run is measured in: logical time, or any other quantity that only grows."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from itertools import pairwise

from lightning_async.cli.compare.configuration import ComparisonError
from lightning_async.cli.compare.results import RunResult
from lightning_async.cli.compare.schema import LOGICAL_TIME, Axis
from lightning_async.cli.nearest import nearest


def positions(result: RunResult, axis: Axis) -> list[float]:
    """Returns where on the axis every evaluation of a run is; empty if the run does not report the quantity.

    Raises:
        ComparisonError: If the quantity falls during the run, so that nothing can be measured in it.

    Example:
        >>> run = RunResult("finished", times=[0.0, 2.0], steps=[0, 4], counters={"bits_sent": [math.nan, 80.0]})
        >>> positions(run, Axis("bits_sent", "bits")), positions(run, Axis("steps", "updates"))
        ([0.0, 80.0], [0.0, 4.0])
    """
    if axis.quantity == LOGICAL_TIME.quantity:
        return result.times
    if axis.quantity == "steps":
        return [float(step) for step in result.steps]
    found = result.counters.get(axis.quantity)
    if found is None:
        return []
    # Before its first step a method has nothing to report.
    values = [0.0 if math.isnan(value) else value for value in found]
    if any(after < before for before, after in pairwise(values)):
        raise ComparisonError(f"axes.{axis.quantity}: it falls during a run, and an axis has to grow; name another")
    return values


def reported_axes(axes: Iterable[Axis], results: Iterable[RunResult]) -> tuple[Axis, ...]:
    """Returns the axes whose quantity some run reports."""
    reported = {"steps", *(name for result in results if result.times for name in result.counters)}
    return tuple(axis for axis in axes if axis.quantity in reported)


def check_axes(axes: Iterable[Axis], results: Iterable[RunResult]) -> None:
    """Checks that some run reports the quantity of every axis.

    Raises:
        ComparisonError: With what the runs do report.
    """
    runs = [result for result in results if result.times]
    reported = {"steps", *(name for result in runs for name in result.counters)}
    for axis in axes:
        if runs and axis.quantity not in reported:
            raise ComparisonError(f"axes: no run reports {axis.quantity!r}; {nearest(axis.quantity, reported)}")


def scale(values: Iterable[float]) -> tuple[float, str]:
    """Returns the power of a thousand that makes large values readable, and how a heading shows it.

    Example:
        >>> scale([2.5e9, 3.1e7])
        (1000000000.0, '10^9 ')
    """
    largest = max((abs(v) for v in values if math.isfinite(v)), default=0.0)
    power = 3 * math.floor(math.log10(largest) / 3) if largest >= 1e5 else 0
    return 10.0**power, f"10^{power} " if power else ""


def figure_name(axis: Axis) -> str:
    """Returns the name of the axis' figure, without its suffix.

    Example:
        >>> figure_name(LOGICAL_TIME), figure_name(Axis("bytes/total", "bytes"))
        ('curves', 'curves_bytes_total')
    """
    return "curves" if axis == LOGICAL_TIME else "curves_" + re.sub(r"\W+", "_", axis.quantity)
