"""Past iterates that somebody still computes at."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import torch
from torch import Tensor

from lightning_async.simulation import Arrival, Cluster, Job


class Versions:
    """Copies of past iterates x_v, for as long as a job at x_v is out.

    The parameters themselves always hold the newest iterate; a copy of it is made only when it is about to change while
    some worker still computes at it. The memory of a version that is dropped serves the next one.

    Args:
        parameters: the trainable parameters, in the optimizer's order.
    """

    def __init__(self, parameters: Sequence[Tensor]) -> None:
        self._parameters = list(parameters)
        self._copies: dict[int, list[Tensor]] = {}
        self._spare: list[Tensor] | None = None
        self.out: dict[int, int] = {}
        """Number of jobs that are out, by version; who gives one out adds it."""
        self._oldest = 0  # no older version can be used any more
        self._released: list[int] = []  # versions that no job was out at, at some time since they were last looked at

    @property
    def num_copies(self) -> int:
        """Copies of the parameters that are held in memory now, the parameters themselves included."""
        return 1 + len(self._copies) + (self._spare is not None)

    def release(self, version: int) -> None:
        """A job at `version` has arrived or been stopped."""
        left = self.out.pop(version) - 1
        if left:
            self.out[version] = left
        else:
            self._released.append(version)

    def preserve(self, newest: int, max_delay: int | None) -> None:
        """Copy the newest iterate before it changes, if a job is out at it whose gradient can still be used.

        What only the gradients of the present step needed is dropped first, and gives its memory to the copy.

        Args:
            newest: index of the iterate that the parameters hold.
            max_delay: largest delay that the next step can use; None if there is no bound.
        """
        if self._released:
            self.forget_released()
        if max_delay is not None:
            while self._oldest <= newest - max_delay:
                self._drop(self._oldest)
                self._oldest += 1
        if newest not in self.out or max_delay == 0:
            return
        copy, self._spare = self._spare, None
        if copy is None:
            copy = [p.data.clone() for p in self._parameters]
        elif len(copy) == 1:
            copy[0].copy_(self._parameters[0].data)
        else:
            torch._foreach_copy_(copy, [p.data for p in self._parameters])
        self._copies[newest] = copy

    def forget_released(self) -> None:
        """Drop the iterates that no job is out at."""
        for version in self._released:
            if version not in self.out:
                self._drop(version)
        self._released.clear()

    def restart(self) -> None:
        """No job is out: the schedule is about to be replayed. Copies are kept."""
        self.out.clear()
        self._released.clear()

    def _drop(self, version: int) -> None:
        copy = self._copies.pop(version, None)
        if copy is not None:
            self._spare = copy

    def enter(self, version: int) -> list[Tensor]:
        """Let the parameters hold iterate `version`, a past one, by pointer, until `leave`.

        Forward and backward must both lie in between: autograd may have saved the parameters themselves.

        Returns:
            The newest iterate, to be given to `leave`.

        Raises:
            RuntimeError: if the iterate was not kept.
        """
        try:
            stale = self._copies[version]
        except KeyError:
            raise RuntimeError(
                f"iterate {version} is not available any more: a step may only use jobs that arrived since the "
                f"previous step, and no job may be given out at an iterate that nobody computes at"
            ) from None
        newest = []
        for p, data in zip(self._parameters, stale):  # noqa: B905  lengths are equal, and this is the hot path
            newest.append(p.data)
            p.data = data
        return newest

    def leave(self, newest: list[Tensor]) -> None:
        """Put the newest iterate back."""
        for p, data in zip(self._parameters, newest):  # noqa: B905  lengths are equal, and this is the hot path
            p.data = data

    def state_dict(self) -> dict[int, list[Tensor]]:
        """The copies by version."""
        return dict(self._copies)

    def load_state_dict(self, copies: dict[int, list[Tensor]]) -> None:
        """Restore the copies; which jobs are out follows from replaying the schedule."""
        self._copies = {
            int(version): [
                tensor.to(device=p.device, dtype=p.dtype, copy=True)
                for tensor, p in zip(copy, self._parameters, strict=True)
            ]
            for version, copy in sorted(copies.items())
        }


class VersionedCluster:
    """A run of a cluster that tells `Versions` which jobs are out; for one schedule."""

    def __init__(self, cluster: Cluster, versions: Versions) -> None:
        self.cluster = cluster
        self._versions = versions
        # Bound once: these are called for every job of a run.
        self._dispatch, self._next_arrival = cluster.dispatch, cluster.next_arrival
        self._out, self._release = versions.out, versions.release

    @property
    def seed(self) -> int:
        """Seed of the cluster."""
        return self.cluster.seed

    @property
    def now(self) -> float:
        """Logical time of the last arrival."""
        return self.cluster.now

    @property
    def workers(self) -> Sequence[int]:
        """Indices of the workers."""
        return self.cluster.workers

    @property
    def endless(self) -> Collection[int]:
        """Workers that compute a job which never finishes."""
        return self.cluster.endless

    def start(self, message_bytes: float | None = None, *, gradients_per_job: int | None = None) -> VersionedCluster:
        """The run itself: it has been started, with the size of the messages and jobs, by who made it."""
        return self

    def dispatch(self, worker: int, version: int) -> Job:
        """Give a worker a job."""
        self._out[version] = self._out.get(version, 0) + 1
        return self._dispatch(worker, version)

    def dispatch_all(self, version: int) -> None:
        """Give every worker a job."""
        for worker in self.workers:
            self.dispatch(worker, version)

    def cancel(self, worker: int) -> Job | None:
        """Stop what a worker computes."""
        job = self.cluster.cancel(worker)
        if job is not None:
            self._versions.release(job.version)
        return job

    def cancel_all(self) -> list[Job]:
        """Stop everything."""
        jobs = self.cluster.cancel_all()
        for job in jobs:
            self._versions.release(job.version)
        return jobs

    def next_arrival(self) -> Arrival:
        """Wait for the next job to finish."""
        arrival = self._next_arrival()
        self._release(arrival.job.version)
        return arrival

    def arrivals_until(self, time: float) -> list[Arrival]:
        """Wait until a deadline."""
        arrivals = self.cluster.arrivals_until(time)
        for arrival in arrivals:
            self._versions.release(arrival.job.version)
        return arrivals
