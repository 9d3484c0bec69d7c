"""The rules of the event queue, in lists that are searched from end to end: what the heap is tested against."""

from __future__ import annotations

import math
from collections.abc import Sequence

from lightning_async.simulation import Duration, WorkerTimes


class CyclicTimes(WorkerTimes):
    """Worker i takes durations[i][0], durations[i][1], ... for its jobs, over and over."""

    def __init__(self, durations: Sequence[Sequence[float]]) -> None:
        self.durations = durations
        self.num_workers = len(durations)

    def sampler(self, seed: int) -> Duration:
        return lambda worker, job, start: self.durations[worker][job % len(self.durations[worker])]


class NaiveCluster:
    def __init__(self, times: WorkerTimes, seed: int = 0) -> None:
        self.duration = times.sampler(seed)
        self.now = self.busy = 0.0
        self.arrived = 0
        self.dispatched = [0] * times.num_workers
        self.lines: list[list[tuple[int, int]]] = [[] for _ in self.dispatched]  # (version, number), oldest first
        self.ends = [math.inf] * times.num_workers

    def _begin(self, worker: int) -> None:
        line = self.lines[worker]
        self.ends[worker] = self.now + self.duration(worker, line[0][1], self.now) if line else math.inf

    def dispatch(self, worker: int, version: int) -> None:
        self.lines[worker].append((version, self.dispatched[worker]))
        self.dispatched[worker] += 1
        if len(self.lines[worker]) == 1:
            self._begin(worker)

    def cancel(self, worker: int) -> tuple[int, int, int] | None:
        if not self.lines[worker]:
            return None
        version, number = self.lines[worker].pop(0)
        self._begin(worker)
        return worker, version, number

    def next_arrival(self) -> tuple[float, tuple[int, int, int]] | None:
        worker = min(range(len(self.ends)), key=lambda w: (self.ends[w], w))
        if self.ends[worker] == math.inf:
            return None
        self.busy += sum(map(bool, self.lines)) * (self.ends[worker] - self.now)
        self.now = self.ends[worker]
        self.arrived += 1
        version, number = self.lines[worker].pop(0)
        self._begin(worker)
        return self.now, (worker, version, number)
