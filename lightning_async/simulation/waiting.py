"""What becomes of a schedule that waits for an arrival that does not come, or not in time."""

from __future__ import annotations

import math

import numpy as np

from lightning_async.simulation.primitives import Cluster, NoArrivalError
from lightning_async.simulation.stragglers import BernoulliStragglers
from lightning_async.simulation.worker_times import WorkerTimes


class PastHorizon(Exception):  # noqa: N818  a signal: nothing is wrong
    """The next arrival, at `time`, comes after the horizon of the run.

    Args:
        time: when it comes, in logical time.
    """

    def __init__(self, time: float) -> None:
        super().__init__(f"the next arrival comes at logical time {time}, after the horizon of the run")
        self.time = time


def too_late(time: float, now: float, times: WorkerTimes) -> NoArrivalError | PastHorizon:
    """Why an arrival after the horizon is not delivered."""
    if time < math.inf:
        return PastHorizon(time)
    return NoArrivalError(
        f"the clock cannot show when the next job arrives: at logical time {now}, with {times!r}, it exceeds the "
        f"largest float; measure times in a larger unit"
    )


def check_all_arrive(cluster: Cluster) -> None:
    """Refuse to wait for workers of which one computes a job that never finishes.

    Raises:
        NoArrivalError: if there is one.
    """
    if cluster.endless:
        raise NoArrivalError(
            f"a gradient of every worker is waited for at logical time {cluster.now}, but worker "
            f"{min(cluster.endless)} computes a job that never finishes: use a method that does not wait for every "
            f"worker, or times that are finite"
        )


def check_nobody_misses(times: WorkerTimes, method: str) -> None:
    """Refuse workers of which one is bound to get a job that it never finishes, if everybody is waited for.

    Raises:
        NoArrivalError: if it is known that there is one.
    """
    p = times.probabilities(0) if isinstance(times, BernoulliStragglers) else np.zeros(1)
    if p.any():
        worker = int(np.argmax(p))
        raise NoArrivalError(
            f"{method} waits for every worker, but each job of worker {worker} never finishes with probability "
            f"{p[worker]:g}, so that sooner or later a step never ends: use a method that does not wait for every "
            f"worker, such as GradientCoding, or times that are finite"
        )


def nothing_arrives(endless: int, now: float, times: WorkerTimes) -> NoArrivalError:
    """Why nothing will ever arrive."""
    return NoArrivalError(
        f"no job will ever arrive at logical time {now}: {endless} of {times.num_workers} workers compute a job that "
        f"never finishes, the others are idle; with {times!r}, use a method that does not wait for every worker, or "
        f"times that are finite"
    )
