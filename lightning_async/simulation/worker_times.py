"""How long a worker takes for one gradient: the interface, and the models in which nothing is random."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TypeAlias

from typing_extensions import override

from lightning_async.arguments import probability, real, reals
from lightning_async.described import Described
from lightning_async.simulation.arguments import worker_count

Duration: TypeAlias = Callable[[int, int, float], float]
"""(worker, job number, start time) -> how long that job takes, in logical time; `math.inf` if it never finishes."""


class WorkerTimes(Described, ABC):
    """How long each of n workers takes for each of its jobs, in logical time.

    Two models are equal when their arguments are, which is also what their repr shows.

    Attributes:
        num_workers: number of workers n, at least 1.
        constant: one duration for each worker if jobs and start times make no difference, otherwise None.
        depends_on_start: whether the time at which a job starts makes a difference.
    """

    num_workers: int
    constant: tuple[float, ...] | None = None
    depends_on_start: bool = False

    @abstractmethod
    def sampler(self, seed: int) -> Duration:
        """The durations under one seed: a function of (worker, job number, start time).

        It is pure: the order of the calls makes no difference, and a call that is repeated gives the same value.

        Args:
            seed: from 0 to 2**64 - 1. Workers have independent draws under the same seed, and models with the same seed
                may share theirs (common random numbers).

        Raises:
            ValueError: if durations are random and the seed is out of range.
        """

    def duration(self, worker: int, job: int, start: float = 0.0, *, seed: int = 0) -> float:
        """Duration of one job, in logical time; `math.inf` if it never finishes. For many jobs use `sampler`.

        Args:
            worker: index of the worker, 0..n-1.
            job: how many jobs the worker was given before.
            start: logical time at which the job starts.
            seed: as for `sampler`.

        Raises:
            ValueError: if there is no such worker, or `job` or `start` is negative.
        """
        if not 0 <= worker < self.num_workers:
            raise ValueError(f"worker must be in 0..{self.num_workers - 1}, got {worker}")
        if job < 0:
            raise ValueError(f"job numbers start at 0, got {job}")
        return self.sampler(seed)(worker, job, real("start", start, at_least=0.0))


class _ConstantTimes(WorkerTimes):
    """A worker takes equally long for all its jobs."""

    constant: tuple[float, ...]

    @override
    def sampler(self, seed: int) -> Duration:
        times = self.constant

        def duration(worker: int, job: int, start: float) -> float:
            return times[worker]

        return duration


class FixedTimes(_ConstantTimes):
    """Times as given: the fixed computation model (Mishchenko et al. 2022, arXiv 2206.07638).

    Args:
        times: duration of every job of each worker, in logical time; positive and finite.

    Raises:
        TypeError: if `times` is not a sequence of numbers.
        ValueError: if there is no worker, or a time is not positive and finite.

    Example:
        >>> FixedTimes([1.0, 2.5]).duration(worker=1, job=7)
        2.5
    """

    def __init__(self, times: Sequence[float]) -> None:
        self.times = reals("times", times, above=0.0)
        if not self.times:
            raise ValueError("times is empty: give one duration for each worker, for at least one worker")
        self.num_workers = len(self.times)
        self.constant = self.times


class UniformTimes(_ConstantTimes):
    """Every worker takes `base`: no heterogeneity.

    Args:
        num_workers: number of workers n, at least 1.
        base: duration of every job, in logical time.

    Raises:
        TypeError: if `num_workers` is not an integer or `base` not a number.
        ValueError: if `num_workers` is below 1 or `base` is not positive and finite.

    Example:
        >>> UniformTimes(3, base=2.0).constant
        (2.0, 2.0, 2.0)
    """

    def __init__(self, num_workers: int, base: float = 1.0) -> None:
        self.num_workers = worker_count(num_workers)
        self.base = real("base", base, above=0.0)
        self.constant = (self.base,) * self.num_workers


class SqrtTimes(_ConstantTimes):
    """Worker i of 1..n takes base * sqrt(i) (Sadiev et al. 2026, arXiv 2605.18174).

    Args:
        num_workers: number of workers n, at least 1.
        base: duration of a job at the fastest worker, in logical time.

    Raises:
        TypeError: if `num_workers` is not an integer or `base` not a number.
        ValueError: if `num_workers` is below 1 or `base` is not positive and finite.

    Example:
        >>> SqrtTimes(4).constant[3]
        2.0
    """

    def __init__(self, num_workers: int, base: float = 1.0) -> None:
        self.num_workers = worker_count(num_workers)
        self.base = real("base", base, above=0.0)
        self.constant = tuple(self.base * math.sqrt(i) for i in range(1, self.num_workers + 1))


class LinearTimes(_ConstantTimes):
    """Worker i of 1..n takes base * i (Sadiev et al. 2026, arXiv 2605.18174).

    Args:
        num_workers: number of workers n, at least 1.
        base: duration of a job at the fastest worker, in logical time.

    Raises:
        TypeError: if `num_workers` is not an integer or `base` not a number.
        ValueError: if `num_workers` is below 1 or `base` is not positive and finite.

    Example:
        >>> LinearTimes(3, base=0.5).constant
        (0.5, 1.0, 1.5)
    """

    def __init__(self, num_workers: int, base: float = 1.0) -> None:
        self.num_workers = worker_count(num_workers)
        self.base = real("base", base, above=0.0)
        self.constant = tuple(self.base * i for i in range(1, self.num_workers + 1))


class TwoSpeedTimes(_ConstantTimes):
    """Fast workers take 1, slow ones `slowdown` (Erickson and Johansson 2026, arXiv 2606.13287); the fast come first.

    Args:
        num_workers: number of workers n, at least 1.
        slowdown: duration of a job at a slow worker, in units of a fast worker's; at least 1.
        slow_fraction: share of slow workers, in [0, 1]. Their number, n * slow_fraction, is rounded to the nearest
            integer, halves up.

    Raises:
        TypeError: if `num_workers` is not an integer, or another argument is not a number.
        ValueError: if an argument is out of range, or if rounding leaves no fast or no slow worker although the share
            asks for some.

    Example:
        >>> TwoSpeedTimes(4, slowdown=4.0).constant
        (1.0, 1.0, 4.0, 4.0)
    """

    def __init__(self, num_workers: int, slowdown: float, slow_fraction: float = 0.5) -> None:
        self.num_workers = worker_count(num_workers)
        self.slowdown = real("slowdown", slowdown, at_least=1.0)
        self.slow_fraction = probability("slow_fraction", slow_fraction)
        slow = math.floor(self.num_workers * self.slow_fraction + 0.5)
        for kind, number, share in (
            ("slow", slow, self.slow_fraction),
            ("fast", self.num_workers - slow, 1.0 - self.slow_fraction),
        ):
            if number == 0 and share > 0.0:
                raise ValueError(
                    f"slow_fraction={self.slow_fraction} of {self.num_workers} workers leaves no {kind} worker; use "
                    f"more workers, or ask for a single speed with slow_fraction 0 or 1"
                )
        self.constant = (1.0,) * (self.num_workers - slow) + (self.slowdown,) * slow


def check_workers(times: WorkerTimes) -> None:
    """Refuse a model, possibly of somebody else's making, that the queue would not notice to be wrong.

    Raises:
        ValueError: if it has no worker, or constant times that are negative, NaN, or not one for each worker.
    """
    if times.num_workers < 1:
        raise ValueError(f"a cluster needs at least one worker, {times!r} has {times.num_workers}")
    if times.constant is not None:
        if len(times.constant) != times.num_workers:
            raise ValueError(f"{times!r} has {times.num_workers} workers and {len(times.constant)} times")
        for worker, time in enumerate(times.constant):
            if not time >= 0.0:
                raise ValueError(f"{times!r} gives worker {worker} the time {time}; times must not be negative or NaN")
