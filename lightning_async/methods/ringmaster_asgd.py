"""Ringmaster ASGD."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from math import isqrt
from typing import Literal

from lightning_async.arguments import boolean, count
from lightning_async.methods.base import Direction, Gradient, Method
from lightning_async.simulation import Cluster, Step

_SLACK = 64  # keeps the list of jobs short, at a price per job that does not depend on the number of workers


class RingmasterASGD(Method):
    """Asynchronous SGD that uses a gradient only if its delay is below a threshold R.

    Maranjyan, Tyurin and Richtarik 2025 (arXiv 2501.16168), Algorithm 4 without stops and Algorithm 5 with stops. Delay
    R - 1 is used, R is not. With stops, a worker whose job has reached delay R after an update is stopped and restarted
    at the new iterate, also if it was due at that very instant; without, it is left to finish, and then discarded.

    Args:
        threshold: R >= 1, or "adaptive": R_k grows like sqrt(k), so that delta^2 < max(1, k) is required (Sadiev et al.
            2026, arXiv 2605.18174, Algorithm 2).
        stops: whether work that has become useless is stopped.

    Raises:
        TypeError: if `threshold` is neither an integer nor a string, or `stops` not a bool.
        ValueError: if `threshold` is below 1, or a string other than "adaptive".
    """

    supports_sparse = True

    def __init__(self, threshold: int | Literal["adaptive"], stops: bool = True) -> None:
        if isinstance(threshold, str) and threshold != "adaptive":
            raise ValueError(f'threshold must be an integer of at least 1, or "adaptive", got {threshold!r}')
        self.threshold: int | Literal["adaptive"] = (
            "adaptive" if isinstance(threshold, str) else count("threshold", threshold, note=', or "adaptive"')
        )
        self.stops = boolean("stops", stops)

    def threshold_at(self, index: int) -> int:
        """R_k of step k = `index`.

        >>> [RingmasterASGD("adaptive").threshold_at(k) for k in (0, 1, 2, 4, 5, 9, 10)]
        [1, 1, 2, 2, 3, 3, 4]
        """
        if self.threshold == "adaptive":
            return isqrt(index - 1) + 1 if index else 1
        return self.threshold

    def steps(self, cluster: Cluster) -> Iterator[Step]:
        """One update per arrival whose delay is below the threshold."""
        k = discarded = 0
        current = [cluster.dispatch(worker, version=0) for worker in cluster.workers]
        by_version = deque(current)  # jobs in order of dispatch, thus of version; some have arrived
        while True:
            arrival = cluster.next_arrival()
            if k - arrival.version < self.threshold_at(k):
                yield Step(k, arrival.time, (arrival.job,), discarded)
                k, discarded = k + 1, 0
            else:
                discarded += 1
            current[arrival.worker] = job = cluster.dispatch(arrival.worker, version=k)
            if self.stops:
                by_version.append(job)
                if len(by_version) > 2 * len(current) + _SLACK:
                    by_version = deque(job for job in by_version if current[job.worker] is job)
                while k - by_version[0].version >= self.threshold_at(k):
                    job = by_version.popleft()
                    if current[job.worker] is job:
                        cluster.cancel(job.worker)
                        discarded += 1
                        current[job.worker] = restarted = cluster.dispatch(job.worker, version=k)
                        by_version.append(restarted)

    def direction(self, step: Step, gradients: list[Gradient]) -> Direction:
        """The gradient as it is."""
        return gradients[0]

    def max_delay(self, index: int) -> int | None:
        """R_k - 1."""
        return self.threshold_at(index) - 1
