"""Two ways to do the same work, timed in turns on one machine in one run."""

import statistics
import time
from collections.abc import Callable
from typing import NamedTuple


class Comparison(NamedTuple):
    """How fast `ours` is, relative to `theirs`; above 1 is faster.

    Attributes:
        ratio: median over neighbouring pairs of slices.
        low: lower quartile.
        high: upper quartile.
        ours: seconds per slice, median.
        theirs: seconds per slice, median.
    """

    ratio: float
    low: float
    high: float
    ours: float
    theirs: float


def compare(
    ours: Callable[[], object],
    theirs: Callable[[], object],
    slices: int,
    warm_up: int = 3,
    clock: Callable[[], float] = time.process_time,
) -> Comparison:
    """Time short slices of both in turns, so that whatever else the machine does falls on both alike.

    Args:
        ours: one slice of work; continues where it stopped when it is called again.
        theirs: the same amount of work.
        slices: how many pairs are timed.
        warm_up: how many pairs are run before that.
        clock: what time is read from: of this process, or `time.perf_counter` for work of several threads.
    """
    for _ in range(warm_up):
        ours()
        theirs()
    our_times, their_times = [], []
    for turn in range(slices):
        pair = [(ours, our_times), (theirs, their_times)]
        for work, times in pair if turn % 2 else reversed(pair):
            times.append(_seconds(work, clock))
    ratios = [b / a for a, b in zip(our_times, their_times, strict=True)]
    low, ratio, high = statistics.quantiles(ratios, n=4)
    return Comparison(ratio, low, high, statistics.median(our_times), statistics.median(their_times))


def seconds(work: Callable[[], object], slices: int, warm_up: int = 3) -> tuple[float, float, float]:
    """Lower quartile, median and upper quartile of the seconds that one slice takes."""
    for _ in range(warm_up):
        work()
    low, middle, high = statistics.quantiles([_seconds(work) for _ in range(slices)], n=4)
    return low, middle, high


def _seconds(work: Callable[[], object], clock: Callable[[], float] = time.process_time) -> float:
    start = clock()
    work()
    return clock() - start
