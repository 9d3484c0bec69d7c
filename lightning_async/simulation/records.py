"""The records a schedule is made of: `Job`, `Arrival` and `Step`.

All three are named tuples: immutable, hashable, compared by value, and cheap enough to be made by the million.
"""

from __future__ import annotations

from typing import NamedTuple


class Job(NamedTuple):
    """One gradient evaluation, or several local steps in a row where a worker sends what they add up to.

    Attributes:
        worker: index of the worker that computes it, from 0.
        version: index k of the iterate x_k at which the gradient is taken (for replica methods: the round).
        number: how many jobs this worker had been given before, stopped ones included.
        shard: owner of the data the gradient is taken on (a worker or a partition); None for one shared stream.
    """

    worker: int
    version: int
    number: int
    shard: int | None = None


class Arrival(NamedTuple):
    """A finished job reaching the server.

    Arrivals are ordered by time, then by worker index: the order in which a server processes simultaneous ones.

    Attributes:
        time: when it arrives, in logical time.
        worker: the worker that finished.
        job: what it finished.
    """

    time: float
    worker: int
    job: Job

    @property
    def version(self) -> int:
        """Index of the iterate at which the arriving gradient was taken."""
        return self.job.version


class Step(NamedTuple):
    """One server update, x_index -> x_{index + 1}.

    Attributes:
        index: number of updates before this one.
        time: when it happens, in logical time.
        jobs: the gradients it uses, in order of use. Each of them arrived after the previous step.
        discarded: arrivals refused plus jobs stopped since the previous step.
    """

    index: int  # type: ignore[assignment]  # tuple.index, which nobody needs here
    time: float
    jobs: tuple[Job, ...]
    discarded: int = 0

    @property
    def delays(self) -> tuple[int, ...]:
        """Server updates between dispatch and use, one per job.

        >>> Step(index=7, time=1.0, jobs=(Job(worker=0, version=4, number=2),)).delays
        (3,)
        """
        return tuple(self.index - job.version for job in self.jobs)
