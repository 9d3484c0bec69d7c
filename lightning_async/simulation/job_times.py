"""How long the jobs of one run take: download, compute, upload."""

from __future__ import annotations

import math
from array import array

from lightning_async.simulation.links import Link
from lightning_async.simulation.records import Job
from lightning_async.simulation.several_gradients import SeveralGradients
from lightning_async.simulation.worker_times import WorkerTimes


class JobTimes:
    """When jobs end, and how long they took, in logical time.

    Args:
        times: how long each worker computes one gradient.
        link: how long a message takes.
        seed: seed of the worker times.
        message_bytes: size of a message; None if it is not known.
        gradients_per_job: how many gradients a job computes, one after the other.
    """

    def __init__(
        self, times: WorkerTimes, link: Link, seed: int, message_bytes: float | None, gradients_per_job: int
    ) -> None:
        self._times, self._link = times, link
        unknown = message_bytes is None and link.bandwidth < math.inf
        self._message = math.nan if unknown else link.time(message_bytes)
        per_job = times if gradients_per_job == 1 else SeveralGradients(times, gradients_per_job)
        self._duration = per_job.sampler(seed)
        self._starts = [array("d") for _ in range(times.num_workers)] if times.depends_on_start else None
        constant = per_job.constant if self._message == 0.0 else None
        self.constant = constant if constant is not None and max(constant) < math.inf else None
        """Duration of every job of each worker; None unless it is all that there is to know."""

    def end(self, job: Job, now: float) -> float:
        """When a job arrives that starts now; infinite if it never does.

        Raises:
            RuntimeError: if the time of a message depends on its size, which is not known.
            ValueError: if the worker times give a duration that is negative or NaN.
        """
        worker, _, number, _ = job
        compute_from = now + self._message
        if compute_from != compute_from:  # NaN
            raise RuntimeError(
                f"{self._link!r} has a finite bandwidth, so that the time of a message depends on its size: begin with "
                f"cluster.start(message_bytes=...), or give the cluster to a method"
            )
        if self._starts is not None:
            starts = self._starts[worker]
            starts.extend([math.nan] * (number - len(starts)))  # jobs that were stopped while they waited
            starts.append(compute_from)
        duration = self._duration(worker, number, compute_from)
        if not duration >= 0.0:
            raise ValueError(f"{self._times!r} gives job {number} of worker {worker} the duration {duration}")
        return compute_from + duration + self._message

    def worker_time(self, job: Job) -> float:
        """How long a job that has been started takes its worker."""
        start = self._starts[job.worker][job.number] if self._starts is not None else 0.0
        return self._duration(job.worker, job.number, start) + 2 * self._message
