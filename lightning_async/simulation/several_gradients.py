"""Jobs of several gradients."""

from __future__ import annotations

from typing_extensions import override

from lightning_async.arguments import count
from lightning_async.simulation.worker_times import Duration, WorkerTimes


class SeveralGradients(WorkerTimes):
    """Workers whose jobs are several gradients, one after the other.

    Job j is made of the gradients j m, ..., j m + m - 1, so that the same gradients take the same time as in jobs of
    their own.

    Args:
        times: how long each worker takes for one gradient.
        per_job: gradients in a job, m >= 1.

    Raises:
        TypeError: if `per_job` is not an integer.
        ValueError: if `per_job` is below 1.

    Example:
        >>> from lightning_async.simulation.worker_times import TwoSpeedTimes
        >>> SeveralGradients(TwoSpeedTimes(2, slowdown=4.0), per_job=5).constant
        (5.0, 20.0)
    """

    def __init__(self, times: WorkerTimes, per_job: int) -> None:
        self.times = times
        self.per_job = count("per_job", per_job)
        self.num_workers = times.num_workers
        self.depends_on_start = times.depends_on_start
        if times.constant is not None:
            self.constant = tuple(sum([time] * self.per_job) for time in times.constant)

    @override
    def sampler(self, seed: int) -> Duration:
        duration, per_job = self.times.sampler(seed), self.per_job

        def several(worker: int, job: int, start: float) -> float:
            elapsed = 0.0
            for number in range(job * per_job, (job + 1) * per_job):
                elapsed += duration(worker, number, start + elapsed)
            return elapsed

        return several
