"""Incremental aggregated SGD."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any

from torch import Tensor

from lightning_async.methods.base import Direction, Gradient, Method
from lightning_async.methods.gradient_table import GradientTable, copied, divided
from lightning_async.simulation import Cluster, Job, Step
from lightning_async.simulation.waiting import check_all_arrive


class IASGD(Method):
    """Incremental aggregated SGD: along the mean of the last gradients of all workers, new or not.

    Blatt, Hero and Gauchman 2007; Gurbuzbalaban, Ozdaglar and Parrilo 2017 (arXiv 1506.02081), with stochastic
    gradients and workers in the order in which they finish: the server keeps the last gradient of every worker; an
    arrival replaces that of its worker, x_{k+1} = x_k - eta (1/n) sum_i G_i, and the finisher restarts. Every worker
    counts the same, however slow it is. Delays of what is in the table have no bound.

    Before every worker has sent a gradient there is no update: until then finishers restart at x_0, and what a worker
    sent before its last gradient is discarded.

    If a gradient is not finite, the older one of its worker stays in the table. A worker that has sent nothing finite
    yet is left out of the mean. Memory: n + 1 gradients, also in a checkpoint.

    Example:
        >>> from lightning_async.simulation import FixedTimes, SimulatedCluster
        >>> schedule = IASGD().steps(SimulatedCluster(FixedTimes([1.0, 2.5])))
        >>> [(step.time, [job.worker for job in step.jobs], step.discarded) for step, _ in zip(schedule, range(3))]
        [(2.5, [0, 1], 1), (3.0, [0], 0), (4.0, [0], 0)]
    """

    def __init__(self) -> None:
        self._table = GradientTable()
        self._total: list[Tensor | None] = []
        self._changes = 0

    def steps(self, cluster: Cluster) -> Iterator[Step]:
        """One update per arrival, from the moment every worker has sent one."""
        discarded = 0
        last: dict[int, Job] = {}
        cluster.dispatch_all(version=0)
        check_all_arrive(cluster)
        while True:
            arrival = cluster.next_arrival()
            discarded += last.pop(arrival.worker, None) is not None
            last[arrival.worker] = arrival.job
            if len(last) == len(cluster.workers):
                break
            cluster.dispatch(arrival.worker, version=0)
        yield Step(0, arrival.time, tuple(last.values()), discarded)
        for k in count(1):
            cluster.dispatch(arrival.worker, version=k)
            arrival = cluster.next_arrival()
            yield Step(k, arrival.time, (arrival.job,))

    def direction(self, step: Step, gradients: list[Gradient]) -> Direction:
        """The mean of the table after the arrivals of the step have entered it."""
        for job, gradient in zip(step.jobs, gradients, strict=True):
            self._total = self._total or [None] * len(gradient)
            self._table.add_mean_to(self._total, job.worker, -1.0)
            self._table.replace(job.worker, gradient)
            self._table.add_mean_to(self._total, job.worker)
            self._changes += 1
        if self._changes >= len(self._table):  # so that rounding does not add up, for the price of one addition a step
            self._total, self._changes = self._table.sum_of_means(), 0
        return divided(self._total, len(self._table))

    def jobs_per_step(self, num_workers: int) -> int | None:
        """One, but for the first step, which has n."""
        return 1 if num_workers == 1 else None

    def state_dict(self) -> dict[str, Any]:
        """The table, and the sum of its entries as it is rounded."""
        return {"table": self._table.state_dict(), "total": self._total, "changes": self._changes}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore what `state_dict` returned."""
        self.reset()
        self._table.load_state_dict(state["table"])
        self._total, self._changes = copied(state["total"]), state["changes"]

    def reset(self) -> None:
        """An empty table."""
        self._table = GradientTable()
        self._total, self._changes = [], 0
