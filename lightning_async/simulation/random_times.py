"""Worker times that are drawn anew for every job."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt
from typing_extensions import override

from lightning_async.arguments import choice, real
from lightning_async.simulation.arguments import per_worker, worker_count
from lightning_async.simulation.random_blocks import block_sampler
from lightning_async.simulation.worker_times import Duration, FixedTimes, WorkerTimes

Distribution: TypeAlias = Literal["exponential", "lognormal", "gamma", "pareto"]

_DEFAULT_SHAPE = {"exponential": None, "lognormal": 1.0, "gamma": 2.0, "pareto": 2.5}


class RandomTimes(WorkerTimes):
    """Independent random durations with a given mean for each worker.

    | distribution | `shape` | default | variance / mean^2 |
    |---|---|---|---|
    | exponential | none | | 1 |
    | lognormal | standard deviation s of the logarithm, above 0 | 1 | exp(s^2) - 1 |
    | gamma | shape k, above 0 | 2 | 1 / k |
    | pareto | tail index a, above 1; the smallest duration is mean * (a - 1) / a | 2.5 | 1 / (a (a - 2)), a > 2 |

    Args:
        num_workers: number of workers n, at least 1.
        distribution: one of the table's.
        mean: expected duration, one for all workers or one for each, in logical time.
        shape: parameter of the distribution, the same for all workers.

    Raises:
        TypeError: if an argument is of the wrong kind.
        ValueError: for an unknown distribution, a mean that is not positive and finite, a number of means that is not
            that of the workers, or a shape out of range.

    Example:
        >>> times = RandomTimes(2, "gamma", mean=[1.0, 4.0], shape=100.0)
        >>> durations = [times.sampler(0)(1, job, 0.0) for job in range(1000)]
        >>> 3.8 < sum(durations) / 1000 < 4.2
        True
    """

    def __init__(
        self,
        num_workers: int,
        distribution: Distribution,
        mean: float | Sequence[float] = 1.0,
        shape: float | None = None,
    ) -> None:
        self.num_workers = worker_count(num_workers)
        self.distribution = choice("distribution", distribution, get_args(Distribution))
        self._means = per_worker("mean", mean, self.num_workers, above=0.0)
        self.mean = self._means if hasattr(mean, "__len__") else self._means[0]
        self.shape = _DEFAULT_SHAPE[distribution]
        if shape is not None:
            if distribution == "exponential":
                raise ValueError(
                    f"an exponential distribution has no shape, got {shape}; use gamma for another variance"
                )
            self.shape = real(f"shape of the {distribution} distribution", shape, above=distribution == "pareto")

    @override
    def sampler(self, seed: int) -> Duration:
        means = self._means

        def draw(generator: np.random.Generator, worker: int, size: int) -> npt.NDArray[np.float64]:
            # A duration that underflows is still one: 0 would let a worker finish any number of jobs in no time.
            return np.maximum(means[worker] * self._with_mean_one(generator, size), np.finfo(np.float64).tiny)

        return block_sampler(self.num_workers, seed, draw)

    def _with_mean_one(self, generator: np.random.Generator, size: int) -> npt.NDArray[np.float64]:
        if self.shape is None:
            return generator.standard_exponential(size)
        if self.distribution == "lognormal":
            return np.exp(self.shape * generator.standard_normal(size) - self.shape**2 / 2)
        if self.distribution == "gamma":
            return generator.standard_gamma(self.shape, size) / self.shape
        return (1.0 + generator.pareto(self.shape, size)) * ((self.shape - 1.0) / self.shape)


class HalfNormalNoise(WorkerTimes):
    """Times plus the absolute value of a normal variable, drawn for every job: delays, never gains.

    A job that takes tau without noise takes tau + |N(0, s^2)|, on average tau + s sqrt(2 / pi); s = `scale` * tau as in
    the language-model experiment of Sadiev et al. 2026 (arXiv 2605.18174), or `std`.

    Args:
        times: durations without noise, one for each worker, or another model.
        scale: s relative to tau; at least 0.
        std: s itself, for all workers or one for each, in logical time; replaces `scale`.

    Raises:
        TypeError: if an argument is of the wrong kind.
        ValueError: if a time is not positive and finite, `scale` or `std` is negative, or the number of `std` is not
            that of the workers.

    Example:
        >>> noisy = HalfNormalNoise([1.0, 2.0], scale=0.05)
        >>> noisy.duration(worker=1, job=0) >= 2.0
        True
    """

    def __init__(
        self,
        times: Sequence[float] | WorkerTimes,
        scale: float = 0.05,
        std: Sequence[float] | float | None = None,
    ) -> None:
        self.times = times if isinstance(times, WorkerTimes) else FixedTimes(times)
        self.num_workers = self.times.num_workers
        self.scale = real("scale", scale, at_least=0.0)
        self._stds = None if std is None else per_worker("std", std, self.num_workers, at_least=0.0)
        self.std = self._stds if self._stds is None or hasattr(std, "__len__") else self._stds[0]
        self.depends_on_start = self.times.depends_on_start
        # Layer 0 is that of the times themselves, and noise upon noise must not be the same noise again.
        self._layer: int = self.times._layer + 1 if isinstance(self.times, HalfNormalNoise) else 1

    @override
    def sampler(self, seed: int) -> Duration:
        stds = self._stds

        def draw(generator: np.random.Generator, worker: int, size: int) -> npt.NDArray[np.float64]:
            noise = np.abs(generator.standard_normal(size))
            return noise * (self.scale if stds is None else stds[worker])

        noise = block_sampler(self.num_workers, seed, draw, self._layer)
        times = self.times.sampler(seed)

        def relative(worker: int, job: int, start: float) -> float:
            time = times(worker, job, start)
            return time + noise(worker, job, start) * time if time < math.inf else time

        def absolute(worker: int, job: int, start: float) -> float:
            return times(worker, job, start) + noise(worker, job, start)

        return relative if stds is None else absolute
