"""How likely each worker is to miss a deadline: known from the model of worker times, or counted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np

from lightning_async.coding.validation import BoolArray, FloatArray
from lightning_async.methods.versions import VersionedCluster
from lightning_async.simulation import BernoulliStragglers, Cluster, SimulatedCluster


class Straggling(Protocol):
    """What a schedule knows about stragglers when a round begins."""

    def probabilities(self, round: int) -> FloatArray:
        """Probability that each worker misses the deadline of a round, shape (n,); asked for in order of the rounds."""

    def observe(self, arrived: BoolArray) -> None:
        """The round that was last asked for is over; who was in time."""


class KnownStraggling:
    """Probabilities as the model of worker times has them, if need be anew in every round.

    Args:
        rule: round -> probability of each worker.
    """

    def __init__(self, rule: Callable[[int], FloatArray]) -> None:
        self._rule = rule

    def probabilities(self, round: int) -> FloatArray:
        """The model's."""
        return self._rule(round)

    def observe(self, arrived: BoolArray) -> None:
        """There is nothing to learn."""


class CountedStraggling:
    """Estimates p_i = (rounds missed + 1/2) / (rounds + 1), renewed every so many rounds.

    One half is Jeffreys' prior: no estimate is 0 or 1, and the first is 1/2. As the first ones are poor, they are
    renewed at rounds 1, 2, 4, 8, ... as well, until `period`. Estimates follow from the schedule alone.

    Args:
        num_workers: number of workers.
        period: rounds between two estimates.

    Example:
        >>> counted = CountedStraggling(2, period=10)
        >>> counted.probabilities(0).tolist()
        [0.5, 0.5]
        >>> counted.observe(np.array([True, False]))
        >>> counted.probabilities(1).tolist()
        [0.25, 0.75]
    """

    def __init__(self, num_workers: int, period: int) -> None:
        self._missed = np.zeros(num_workers, dtype=np.int64)
        self._rounds = 0
        self._period = period
        self._estimate = self._count()

    def probabilities(self, round: int) -> FloatArray:
        """The latest estimate."""
        early = round < self._period and round & (round - 1) == 0
        if early or round % self._period == 0:
            self._estimate = self._count()
        return self._estimate

    def observe(self, arrived: BoolArray) -> None:
        """Count those that were late."""
        self._missed += ~arrived
        self._rounds += 1

    def _count(self) -> FloatArray:
        return np.asarray((self._missed + 0.5) / (self._rounds + 1.0), dtype=np.float64)


def straggling(
    cluster: Cluster, deadline: float, *, num_bytes: float, period: int, counted: bool = False
) -> Straggling:
    """What can be known about the stragglers of a cluster.

    Known for `BernoulliStragglers`, and for worker times that never change, where p_i is 0 or 1; otherwise counted.

    Args:
        cluster: the workers.
        deadline: how long the server waits in each round, in logical time.
        num_bytes: size of a message between server and worker, in bytes.
        period: rounds between two counted estimates.
        counted: count, whatever is known.

    Raises:
        ValueError: if it is known that nobody ever arrives by the deadline.
    """
    simulated = cluster.cluster if isinstance(cluster, VersionedCluster) else cluster
    if counted or not isinstance(simulated, SimulatedCluster):
        return CountedStraggling(len(cluster.workers), period)
    times = simulated.times
    # What is due at the deadline but for rounding is in time, as for the cluster's own clock.
    limit = deadline * (1.0 + 1e-9) - 2.0 * simulated.link.time(num_bytes)
    if isinstance(times, BernoulliStragglers):
        if times.on_time > limit:
            raise ValueError(_too_short(deadline, times.on_time + deadline - limit))
        return KnownStraggling(lambda round: np.asarray(times.probabilities(round), dtype=np.float64))
    if times.constant is None:
        return CountedStraggling(len(cluster.workers), period)
    late = np.array([time > limit for time in times.constant], dtype=np.float64)
    if late.all():
        raise ValueError(_too_short(deadline, min(times.constant) + deadline - limit))
    return KnownStraggling(lambda round: late)


def _too_short(deadline: float, needed: float) -> str:
    return (
        f"nobody ever arrives by a deadline of {deadline:g}: the fastest worker needs {needed:g} of logical time for "
        f"download, computing and upload. Use a deadline of at least that, or a faster link."
    )
