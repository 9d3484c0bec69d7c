"""Evaluations at every point of the grid: an iterate that stays current over several of them counts at each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from lightning_async.cli.compare.measures import time_to_target
from lightning_async.cli.compare.results import RunResult
from lightning_async.cli.compare.schema import Target
from lightning_async.target import held_multiples

if TYPE_CHECKING:
    from lightning_async.cli.compare.plan import Run

T = TypeVar("T")


def on_grid(run: Run, result: RunResult, target: Target) -> RunResult:
    """Returns what a run measured, with the evaluations that it did not need to repeat.

    An iterate is evaluated once, at the first point of the grid at which it is current. A method that waits, for slow
    workers or for a message, has fewer evaluations for that, and a mean over several would reach farther back.

    Args:
        run: The run.
        result: What it measured.
        target: Where it ended, if it was to end there.
    """
    if not result.times:
        return result
    last, window = result.times[-1], target.window
    index, times = held(result.times, run.evaluate_every, last, window)
    if result.status == "finished" and not (run.stop and _arrives(result, target, index, times)):
        index, times = held(result.times, run.evaluate_every, run.budget, window)

    def at(column: Sequence[T]) -> list[T]:
        return [column[i] for i in index]

    return replace(
        result,
        times=times,
        steps=at(result.steps),
        train_loss=at(result.train_loss),
        metrics={name: at(values) for name, values in result.metrics.items()},
        counters={name: at(values) for name, values in result.counters.items()},
    )


def _arrives(result: RunResult, target: Target, index: Sequence[int], times: Sequence[float]) -> bool:
    values = result.metrics.get(target.metric, ())
    return bool(values) and time_to_target(times, [values[i] for i in index], target) is not None


def held(times: Sequence[float], every: float, until: float, window: int) -> tuple[list[int], list[float]]:
    """Returns at which points of the grid which evaluation counts.

    Of a long wait, those that change a mean over `window` of them, and the last.

    Args:
        times: Logical time of every evaluation, increasing.
        every: Distance of the grid.
        until: Logical time up to which the last iterate is current.
        window: Number of evaluations that are averaged.

    Returns:
        For each point, the index of the evaluation, and the logical time: that of the iterate, then that of the grid.

    Example:
        >>> held([2.0, 7.0], every=2.0, until=11.0, window=3)
        ([0, 0, 0, 1, 1], [2.0, 4.0, 6.0, 7.0, 10.0])
    """
    index: list[int] = []
    points: list[float] = []
    for i, time in enumerate(times):
        further = held_multiples(time, times[i + 1] if i + 1 < len(times) else None, every, until)
        shown = [*further[:window], *further[max(window, len(further) - 1) :]]
        index += [i] * (1 + len(shown))
        points += [time, *(multiple * every for multiple in shown)]
    return index, points
