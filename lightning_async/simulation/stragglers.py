"""Workers that answer in time or not at all: the straggler model of gradient coding."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
from typing_extensions import override

from lightning_async.arguments import array, random_seed, real
from lightning_async.described import Described
from lightning_async.simulation.arguments import worker_count
from lightning_async.simulation.random_blocks import block_sampler, philox
from lightning_async.simulation.worker_times import Duration, WorkerTimes

StragglingRule: TypeAlias = Callable[[int], npt.NDArray[np.float64]]
"""Round -> probability of straggling of each worker; the same for the same round."""

_ROUNDS_KEPT = 8
_DOMAIN = int.from_bytes(b"straggle", "big")


class BernoulliStragglers(WorkerTimes):
    """A job takes `on_time` with probability 1 - p_i, otherwise it never finishes. The job's number is the round.

    Workers and rounds are independent.

    Args:
        p: probability that a worker straggles, in [0, 1]: one number for all workers, one for each, or a function from
            the round to one for each. The function must depend on nothing but the round.
        num_workers: number of workers n. Needed with one number; otherwise the length of `p`, or of `p(0)`.
        on_time: duration of a job that finishes, in logical time.

    Raises:
        TypeError: if `p` is not numbers or a function.
        ValueError: if a probability is not in [0, 1], the number of workers is unknown, or `p` has another length; for
            a later round of a function, when that round is asked for.

    Example:
        >>> stragglers = BernoulliStragglers([0.0, 1.0], on_time=1.0)
        >>> stragglers.duration(worker=0, job=3), stragglers.duration(worker=1, job=3)
        (1.0, inf)
    """

    def __init__(
        self,
        p: float | Sequence[float] | StragglingRule,
        num_workers: int | None = None,
        on_time: float = 1.0,
    ) -> None:
        self.on_time = real("on_time", on_time, above=0.0)
        if callable(p):
            self.p: float | tuple[float, ...] | StragglingRule = p
            given = _numbers("p(0)", p(0))
            what = "p(0)"
        else:
            given = _numbers("p", p)
            self.p = float(given) if given.ndim == 0 else tuple(given.tolist())
            what = "p"
        if num_workers is None:
            if given.ndim == 0:
                raise ValueError(f"{what} is one number for all workers, {given}; say how many with num_workers")
            if given.size == 0:
                raise ValueError(f"{what} is empty: give one probability for each worker, for at least one worker")
            num_workers = len(given)
        self.num_workers = worker_count(num_workers)
        self.probabilities(0)

    def probabilities(self, round: int) -> npt.NDArray[np.float64]:
        """Probability of straggling of each worker in a round, shape (n,).

        Raises:
            TypeError: if they are not numbers.
            ValueError: if there are not n of them, or one is not in [0, 1].
        """
        what, given = (f"p({round})", self.p(round)) if callable(self.p) else ("p", self.p)
        numbers = _numbers(what, given)
        if numbers.ndim > 0 and numbers.shape != (self.num_workers,):
            raise ValueError(f"{what} has shape {numbers.shape} for {self.num_workers} workers")
        wrong = np.flatnonzero(~((numbers >= 0.0) & (numbers <= 1.0)))
        if wrong.size:
            worker, value = wrong[0], numbers.reshape(-1)[wrong[0]]
            raise ValueError(f"{what} must hold probabilities, in [0, 1]; got {value} for worker {worker}")
        return np.broadcast_to(numbers, self.num_workers)

    @override
    def sampler(self, seed: int) -> Duration:
        on_time = self.on_time
        if callable(self.p):
            return self._sampler_by_round(seed)
        p = self.probabilities(0)

        def draw(generator: np.random.Generator, worker: int, size: int) -> npt.NDArray[np.float64]:
            return np.where(generator.random(size) < p[worker], math.inf, on_time)

        return block_sampler(self.num_workers, seed, draw)

    def _sampler_by_round(self, seed: int) -> Duration:
        def draw(generator: np.random.Generator, worker: int, size: int) -> npt.NDArray[np.float64]:
            return generator.random(size)

        uniform = block_sampler(self.num_workers, seed, draw)
        recent: OrderedDict[int, list[float]] = OrderedDict()

        def duration(worker: int, job: int, start: float) -> float:
            p = recent.get(job)
            if p is None:
                p = recent[job] = self.probabilities(job).tolist()
                if len(recent) > _ROUNDS_KEPT:
                    recent.popitem(last=False)
            return math.inf if uniform(worker, job, start) < p[worker] else self.on_time

        return duration


class ExponentialStraggling(Described):
    """Probabilities p_i = exp(-mu_i (threshold - 1)), mu_i uniform in [low, high], drawn anew in every round.

    p_i is the probability that a worker with time 1 + Exp(mu_i) misses the deadline `threshold`, as in the experiments
    of arXiv 2605.15890.

    Args:
        num_workers: number of workers n, at least 1.
        threshold: deadline, in units of the shortest possible time; at least 1.
        low: smallest rate mu_i, above 0.
        high: largest rate mu_i.
        seed: seed of the rates, 0 to 2**64 - 1.

    Raises:
        TypeError: if an argument is not a number, or not an integer where one is needed.
        ValueError: if an argument is out of range.

    Example:
        >>> times = BernoulliStragglers(ExponentialStraggling(num_workers=50, threshold=1.1))
        >>> times.probabilities(round=3).shape
        (50,)
    """

    def __init__(self, num_workers: int, threshold: float, low: float = 0.01, high: float = 2.0, seed: int = 0) -> None:
        self.num_workers = worker_count(num_workers)
        self.threshold = real("threshold", threshold, at_least=1.0)
        self.low = real("low", low, above=0.0)
        self.high = real("high", high, at_least=self.low)
        self.seed = random_seed(seed)

    def __call__(self, round: int) -> npt.NDArray[np.float64]:
        """Probability of straggling of each worker in a round, shape (n,)."""
        generator = np.random.Generator(philox(self.seed, round, _DOMAIN))
        rates: npt.NDArray[np.float64] = generator.uniform(self.low, self.high, self.num_workers)
        return np.exp(-rates * (self.threshold - 1.0))


def _numbers(what: str, values: npt.ArrayLike) -> npt.NDArray[np.float64]:
    return array(what, values, note=" in [0, 1], or a function of the round")
