"""Rennala SGD."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from lightning_async.arguments import boolean, count
from lightning_async.methods.averaging import AveragingMethod
from lightning_async.simulation import Cluster, Job, Step


class RennalaSGD(AveragingMethod):
    """Mini-batch SGD whose batch is filled by whoever is fast.

    Tyurin and Richtarik 2023 (arXiv 2305.12387), Algorithm 1 (Method 4 of the paper): all workers compute at x_k over
    and over; when `batch` gradients taken at x_k have arrived in total, their mean makes one step.

    Args:
        batch: B >= 1, the number of gradients in a step.
        stops: whether unfinished work at x_k is stopped when the step is made, and all workers restart at x_{k+1}.
            Otherwise they finish, and what arrives late is discarded.

    Raises:
        TypeError: if `batch` is not an integer, or `stops` not a bool.
        ValueError: if `batch` is below 1.
    """

    def __init__(self, batch: int, stops: bool = True) -> None:
        self.batch = count("batch", batch)
        self.stops = boolean("stops", stops)

    def steps(self, cluster: Cluster) -> Iterator[Step]:
        """One update per `batch` gradients taken at the current iterate."""
        return self._steps_with_stops(cluster) if self.stops else self._steps_without_stops(cluster)

    def _steps_with_stops(self, cluster: Cluster) -> Iterator[Step]:
        discarded = 0
        for k in itertools.count():
            cluster.dispatch_all(version=k)
            jobs = [cluster.next_arrival().job]
            while len(jobs) < self.batch:
                cluster.dispatch(jobs[-1].worker, version=k)
                jobs.append(cluster.next_arrival().job)
            yield Step(k, cluster.now, tuple(jobs), discarded)
            discarded = len(cluster.cancel_all())

    def _steps_without_stops(self, cluster: Cluster) -> Iterator[Step]:
        k = discarded = 0
        jobs: list[Job] = []
        cluster.dispatch_all(version=0)
        while True:
            arrival = cluster.next_arrival()
            if arrival.version == k:
                jobs.append(arrival.job)
            else:
                discarded += 1
            if len(jobs) == self.batch:
                yield Step(k, arrival.time, tuple(jobs), discarded)
                k, discarded, jobs = k + 1, 0, []
            cluster.dispatch(arrival.worker, version=k)

    def jobs_per_step(self, num_workers: int) -> int | None:
        """B."""
        return self.batch

    def max_delay(self, index: int) -> int | None:
        """0: only gradients taken at the current iterate are used."""
        return 0
