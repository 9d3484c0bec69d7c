"""Ringleader ASGD."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from torch import Tensor
from typing_extensions import Self

from lightning_async.methods.base import Direction, Gradient, Method
from lightning_async.methods.gradient_table import GradientTable, copied, divided
from lightning_async.simulation import Cluster, Job, Step
from lightning_async.simulation.waiting import check_all_arrive


class RingleaderStep(Step):
    """An update of Ringleader, the (index mod n)-th of its round.

    Attributes:
        num_workers: updates in a round, n.
    """

    num_workers: int

    @classmethod
    def of(cls, num_workers: int, index: int, time: float, jobs: list[Job]) -> Self:
        """The update that an arrival, the last one of `jobs`, triggers."""
        step = cls(index, time, tuple(jobs))
        step.num_workers = num_workers
        return step

    @property
    def round(self) -> int:
        """The round of the update."""
        return self.index // self.num_workers

    def round_of(self, job: Job) -> int:
        """The round to whose table a job belongs: that after its worker's update, which gave it its version."""
        return -(-job.version // self.num_workers)

    def _replace(self, **changes: Any) -> Self:
        step = super()._replace(**changes)
        step.num_workers = self.num_workers
        return step


class RingleaderASGD(Method):
    """Asynchronous SGD for workers with data of their own, of which no gradient is discarded.

    Maranjyan and Richtarik 2025 (arXiv 2509.22860), Algorithm 1. The server has a table: the sum G_i of the gradients
    that worker i has sent in this round, and their number b_i. A round has two phases:

    1. Gradients are collected, without an update, until every worker has sent one; who finishes computes once more at
       the iterate that it has.
    2. There are exactly n updates x_{k+1} = x_k - eta (1/n) sum_i G_i / b_i. The last finisher of phase 1 triggers the
       first, the first arrival of each other worker, once it is in the table, the next. A worker restarts at the new
       iterate after its own update. What it sends after that belongs to the table of the next round.

    Used gradients have a delay of at most 2n - 2. A job is listed in the first step after its arrival, so that
    `Step.delays` are delays on arrival, at most 2n - 2 as well.

    A gradient that is not finite is left out of the table, and a worker without any in it is left out of the mean. If
    nothing finite has arrived since the last update, there is no update.

    Memory: at most n + 2 gradients, also in a checkpoint, and during a step a sum for each worker that has sent
    something since the last one.

    Example:
        >>> from lightning_async.simulation import FixedTimes, SimulatedCluster
        >>> schedule = RingleaderASGD().steps(SimulatedCluster(FixedTimes([1.0, 2.5])))
        >>> [(step.time, [job.worker for job in step.jobs]) for step, _ in zip(schedule, range(4))]
        [(2.5, [0, 0, 1]), (3.0, [0]), (5.0, [0, 0, 1]), (6.0, [0])]
    """

    sums_by_worker = True
    waits_for_all = True

    def __init__(self) -> None:
        self._round = 0
        self._table, self._next = GradientTable(), GradientTable()
        self._total: list[Tensor | None] = []  # sum_i G_i / b_i since the first update of the round
        self._senders = 0  # workers that have a part in it

    def steps(self, cluster: Cluster) -> Iterator[Step]:
        """Rounds of n updates, triggered by n different workers."""
        n, k = len(cluster.workers), 0
        jobs: list[Job] = []  # arrived since the last update
        heard: set[int] = set()  # workers in the table
        cluster.dispatch_all(version=0)
        while True:
            while True:  # phase 1
                check_all_arrive(cluster)
                arrival = cluster.next_arrival()
                jobs.append(arrival.job)
                heard.add(arrival.worker)
                if len(heard) == n:
                    break
                cluster.dispatch(arrival.worker, arrival.version)
            waiting = set(cluster.workers)  # for their update
            heard = set()
            while True:  # phase 2
                yield RingleaderStep.of(n, k, arrival.time, jobs)
                k, jobs = k + 1, []
                cluster.dispatch(arrival.worker, version=k)
                waiting.remove(arrival.worker)
                if not waiting:
                    break
                check_all_arrive(cluster)
                arrival = cluster.next_arrival()
                while arrival.worker not in waiting:
                    jobs.append(arrival.job)
                    heard.add(arrival.worker)
                    cluster.dispatch(arrival.worker, arrival.version)
                    check_all_arrive(cluster)
                    arrival = cluster.next_arrival()
                jobs.append(arrival.job)

    def direction(self, step: Step, gradients: list[Gradient]) -> Direction | None:
        """(1/n) sum_i G_i / b_i after the arrivals since the last update have entered their tables."""
        assert isinstance(step, RingleaderStep)
        self._enter(step.round)
        received = Counter(job.worker for job in step.jobs)
        rounds = {job.worker: step.round_of(job) for job in step.jobs}  # a worker has one iterate between its updates
        for (worker, number), gradient in zip(received.items(), gradients, strict=True):
            if rounds[worker] > step.round:
                self._next.add(worker, gradient, number)
            else:
                self._receive(worker, gradient, number)
        if not self._total:
            self._total, self._senders = self._table.sum_of_means(), len(self._table)
        return divided(self._total, self._senders) if self._total else None

    def _enter(self, round: int) -> None:
        """G <- G+ when a round begins; G+ is of no use if nothing finite arrived in a whole round."""
        if round > self._round:
            self._table = self._next if round == self._round + 1 else GradientTable()
            self._round, self._next = round, GradientTable()
            self._total, self._senders = [], 0

    def _receive(self, worker: int, gradient: Gradient, number: int) -> None:
        """A sum of gradients enters the table of this round; in phase 2 it is the last one of its worker."""
        known = worker in self._table
        if self._total:
            self._table.add_mean_to(self._total, worker, -1.0)
        self._table.add(worker, gradient, number)
        if self._total:
            self._table.add_mean_to(self._total, worker)
            self._senders += not known
            self._table.remove(worker)  # what counts from now on is its part in the sum

    def jobs_per_step(self, num_workers: int) -> int | None:
        """It varies, except with one worker."""
        return 1 if num_workers == 1 else None

    def state_dict(self) -> dict[str, Any]:
        """The tables of this round and the next, and the sum of the means as it is rounded."""
        return {
            "round": self._round,
            "table": self._table.state_dict(),
            "next": self._next.state_dict(),
            "total": self._total,
            "senders": self._senders,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore what `state_dict` returned."""
        self.reset()
        self._round = state["round"]
        self._table.load_state_dict(state["table"])
        self._next.load_state_dict(state["next"])
        self._total, self._senders = copied(state["total"]), state["senders"]

    def reset(self) -> None:
        """Empty tables."""
        self._round = 0
        self._table, self._next = GradientTable(), GradientTable()
        self._total, self._senders = [], 0
