"""Malenia SGD."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import count
from math import ceil

from torch import Tensor

from lightning_async.arguments import real
from lightning_async.methods.base import Direction, Gradient, Method
from lightning_async.methods.gradient_table import accumulate, divided
from lightning_async.simulation import Cluster, Job, Step
from lightning_async.simulation.waiting import check_all_arrive

_SLACK = 1e-9  # relative: sums of 1 / B_i are rounded


class MaleniaSGD(Method):
    """Mini-batch SGD for workers with data of their own: every worker counts the same, however many gradients it sends.

    Tyurin and Richtarik 2023 (arXiv 2305.12387), Method 6: all workers compute at x_k over and over, until the harmonic
    mean of the numbers B_i of gradients that they have sent, ((1/n) sum_i 1/B_i)^(-1), has reached S/n. Then
    x_{k+1} = x_k - eta (1/n) sum_i (mean of the gradients of worker i). Unfinished work at x_k is stopped, and all
    workers restart at x_{k+1}.

    Gradients that are not finite are left out of the mean of their worker, and a worker of which none is left out of
    the mean over workers. Memory: one gradient for each worker, during a step.

    Args:
        target: S > 0; n if None, so that a step waits for one gradient of everybody. The larger it is, the smaller the
            variance of a step: it is like that of S gradients. S < n is as S = n.

    Raises:
        TypeError: if `target` is not a number.
        ValueError: if `target` is not positive and finite.

    Example:
        >>> from lightning_async.simulation import FixedTimes, SimulatedCluster
        >>> first = next(MaleniaSGD().steps(SimulatedCluster(FixedTimes([1.0, 2.5]))))
        >>> first.time, [job.worker for job in first.jobs]
        (2.5, [0, 0, 1])
    """

    waits_for_all = True
    sums_by_worker = True

    def __init__(self, target: float | None = None) -> None:
        note = ", or None for the number of workers"
        self.target = None if target is None else real("target", target, above=0.0, note=note)

    def steps(self, cluster: Cluster) -> Iterator[Step]:
        """One update whenever enough gradients of all workers, taken at the current iterate, have arrived."""
        n = len(cluster.workers)
        limit = n * n / (self._target(n) * (1.0 - _SLACK))  # of sum_i 1/B_i
        discarded = 0
        for k in count():
            cluster.dispatch_all(version=k)
            check_all_arrive(cluster)
            jobs: list[Job] = []
            received = [0] * n
            silent, inverses = n, 0.0  # workers with B_i = 0; sum of 1 / B_i over the others
            while True:
                job = cluster.next_arrival().job
                jobs.append(job)
                before = received[job.worker]
                received[job.worker] = before + 1
                silent -= before == 0
                inverses += 1.0 / (before + 1) - (1.0 / before if before else 0.0)
                if not silent and inverses <= limit:
                    break
                cluster.dispatch(job.worker, version=k)
            yield Step(k, cluster.now, tuple(jobs), discarded)
            discarded = len(cluster.cancel_all())

    def direction(self, step: Step, gradients: list[Gradient]) -> Direction:
        """(1/n) sum_i (mean of the gradients of worker i)."""
        total: list[Tensor | None] = [None] * len(gradients[0])
        received = Counter(job.worker for job in step.jobs)
        for number, gradient in zip(received.values(), gradients, strict=True):
            accumulate(total, gradient, 1.0 / number)
        return divided(total, len(gradients))

    def jobs_per_step(self, num_workers: int) -> int | None:
        """It varies, except with one worker, which sends S gradients."""
        return ceil(self._target(1) * (1.0 - _SLACK)) if num_workers == 1 else None

    def max_delay(self, index: int) -> int | None:
        """0: only gradients taken at the current iterate are used."""
        return 0

    def _target(self, num_workers: int) -> float:
        """S; a step needs a gradient of every worker in any case."""
        return max(float(num_workers), self.target or 0.0)
