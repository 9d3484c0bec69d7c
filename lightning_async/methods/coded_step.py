"""The record of one round of gradient coding."""

from __future__ import annotations

from typing import Any

from typing_extensions import Self

from lightning_async.coding.validation import BoolArray, IntArray
from lightning_async.methods.code_design import CodePlan
from lightning_async.simulation import Job, Step


class CodedStep(Step):
    """A server update that is decoded from the messages of one round.

    A job is the gradient of one partition, which every holder of the partition computes: its `worker` is the first
    holder, its `number` is index * K + partition, whether or not partitions own their data. So what is random inside a
    job does not depend on who was in time.

    Attributes:
        plan: bits and code of the round.
        arrived: workers whose message was in time, (n,).
        seed: seed of the quantisers' randomness, together with the step's index and the worker.
    """

    plan: CodePlan
    arrived: BoolArray
    seed: int

    @classmethod
    def of(
        cls,
        index: int,
        time: float,
        partitions: IntArray,
        discarded: int,
        *,
        plan: CodePlan,
        arrived: BoolArray,
        seed: int,
        sharded: bool,
    ) -> Self:
        """The record of a round in which the gradients of these partitions are needed."""
        first = index * plan.code.assignment.shape[1]
        jobs = tuple(
            Job(plan.holders[j], index, first + j, j if sharded else None) for j in map(int, partitions.tolist())
        )
        step = cls(index, time, jobs, discarded)
        step.plan, step.arrived, step.seed = plan, arrived, seed
        return step

    @property
    def partitions(self) -> tuple[int, ...]:
        """The partition of each job."""
        count = self.plan.code.assignment.shape[1]
        return tuple(job.number % count for job in self.jobs)

    def _replace(self, **changes: Any) -> Self:
        step = super()._replace(**changes)
        step.plan, step.arrived, step.seed = self.plan, self.arrived, self.seed
        return step
