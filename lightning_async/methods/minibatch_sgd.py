"""Synchronous mini-batch SGD."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

from lightning_async.methods.averaging import AveragingMethod
from lightning_async.simulation import Cluster, Step


class MinibatchSGD(AveragingMethod):
    """Synchronous SGD: every worker sends one gradient at x_k, and the step waits for the slowest."""

    waits_for_all = True

    def steps(self, cluster: Cluster) -> Iterator[Step]:
        """One update per n gradients, one from every worker."""
        for k in count():
            cluster.dispatch_all(version=k)
            arrivals = [cluster.next_arrival() for _ in cluster.workers]
            yield Step(k, cluster.now, tuple(arrival.job for arrival in arrivals))

    def jobs_per_step(self, num_workers: int) -> int | None:
        """Number of workers, n."""
        return num_workers

    def max_delay(self, index: int) -> int | None:
        """0: the step waits for gradients taken at the current iterate."""
        return 0
