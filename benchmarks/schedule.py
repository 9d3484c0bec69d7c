"""Events per second of a schedule, against a bare `heapq` loop that makes the same `Job` and `Step` records.

The bare loop knows nothing but fixed times and vanilla ASGD. What it lacks, and the schedule pays for: jobs that can be
stopped, queues at workers, links, random times, any other rule.
"""

from collections import deque
from collections.abc import Iterator
from functools import partial
from heapq import heapify, heapreplace
from itertools import count, islice

import numpy as np
from rich.table import Table

from benchmarks.timing import compare
from lightning_async.methods import ASGD
from lightning_async.simulation import FixedTimes, Job, SimulatedCluster, Step

WORKERS = (16, 10_000, 100_000)
EVENTS_PER_SLICE = 5_000
SLICES = 60


def bare_loop(times: tuple[float, ...]) -> Iterator[Step]:
    """Vanilla ASGD with nothing around it."""
    heap = [(time, worker, Job(worker, 0, 0)) for worker, time in enumerate(times)]
    heapify(heap)
    numbers = [1] * len(times)
    for k in count():
        time, worker, job = heap[0]
        yield Step(k, time, (job,))
        heapreplace(heap, (time + times[worker], worker, Job(worker, k + 1, numbers[worker])))
        numbers[worker] += 1


def advance(steps: Iterator[Step], events: int) -> None:
    deque(islice(steps, events), maxlen=0)


def run() -> Table:
    table = Table(title="Events of a schedule, relative to a bare heapq loop (at least 0.6)")
    for column in ("workers", "relative speed", "quartiles", "events/s", "bare loop"):
        table.add_column(column, justify="right")
    for n in WORKERS:
        times = FixedTimes(np.random.default_rng(0).uniform(1.0, 4.0, n).tolist())
        ours, theirs = ASGD().steps(SimulatedCluster(times)), bare_loop(times.constant)
        if list(islice(ours, 3 * n)) != list(islice(theirs, 3 * n)):
            raise RuntimeError("the two loops must make the same steps")
        result = compare(partial(advance, ours, EVENTS_PER_SLICE), partial(advance, theirs, EVENTS_PER_SLICE), SLICES)
        table.add_row(
            f"{n:,}",
            f"{result.ratio:.2f}",
            f"{result.low:.2f} to {result.high:.2f}",
            f"{EVENTS_PER_SLICE / result.ours:,.0f}",
            f"{EVENTS_PER_SLICE / result.theirs:,.0f}",
        )
    return table
