"""What is said about a setting: medians, quantiles and shares over seeds, with 95 % intervals."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from recipes.heavy_tails.running import Result
from recipes.heavy_tails.settings import Study

__all__ = ["Interval", "Measure", "Read", "Setting", "final_norms", "growth", "share", "updates_over_slowdowns"]

Read = Mapping[str, Result]
"""Results by the key of their run."""
Measure = Literal["first", "mean", "settled"]
Array = npt.NDArray[np.float64]

_RESAMPLES = 2000


@dataclass(frozen=True)
class Setting:
    """What the D of a row of a table have in common."""

    objective: str
    theta: float
    noise: float
    method: str
    step: float


@dataclass(frozen=True)
class Interval:
    """An estimate with its 95 % interval; infinite where too many seeds never arrive."""

    value: float
    low: float
    high: float


def updates_over_slowdowns(study: Study, setting: Setting, measure: Measure, results: Read) -> Array:
    """Updates until a measure is reached, shape (slowdowns, seeds); infinite for seeds that never reach it."""
    rows = []
    for slowdown in study.slowdowns:
        run = study.run(setting.objective, setting.theta, setting.noise, slowdown, setting.method, setting.step)
        reached = getattr(results[run.key], measure)
        rows.append([math.inf if count is None else float(count) for count in reached])
    return np.array(rows)


def final_norms(study: Study, setting: Setting, slowdown: float, results: Read) -> Array:
    """Gradient norms of the last iterates, shape (seeds,)."""
    run = study.run(setting.objective, setting.theta, setting.noise, slowdown, setting.method, setting.step)
    return np.array(results[run.key].final)


def quantile(samples: Array, probability: float) -> Array:
    """An order statistic along the last axis: exact where some samples are infinite."""
    count = samples.shape[-1]
    at = min(count - 1, math.ceil(probability * count) - 1)
    return np.asarray(np.partition(samples, at, axis=-1)[..., at])


def over_seeds(samples: Array, statistic: Callable[[Array], Array]) -> list[Interval]:
    """Statistics over seeds (the last axis) with percentile bootstrap intervals.

    Seeds are resampled together for all rows of the samples: they share their noise. A statistic is of the last axis,
    whatever lies between it and the rows.
    """
    chosen = np.random.default_rng(0).integers(samples.shape[-1], size=(_RESAMPLES, samples.shape[-1]))
    resampled = np.atleast_2d(statistic(samples[..., chosen]))
    low, high = quantile(resampled, 0.025), quantile(resampled, 0.975)
    return [Interval(*map(float, three)) for three in zip(np.atleast_1d(statistic(samples)), low, high, strict=True)]


def medians(samples: Array) -> list[Interval]:
    """The median of every row."""
    return over_seeds(samples, lambda rows: quantile(rows, 0.5))


def growth(samples: Array) -> Interval:
    """Median of the last row over that of the first: 1 if the slow workers' time does not matter."""
    with np.errstate(invalid="ignore"):
        return over_seeds(samples, lambda rows: quantile(rows[-1], 0.5) / quantile(rows[0], 0.5))[0]


def share(hits: npt.NDArray[np.bool_]) -> Interval:
    """Share of the seeds, with Wilson's interval."""
    count, z = len(hits), 1.959964
    mean = float(hits.mean())
    centre = (mean + z**2 / (2 * count)) / (1 + z**2 / count)
    half = z / (1 + z**2 / count) * math.sqrt(mean * (1 - mean) / count + z**2 / (4 * count**2))
    return Interval(mean, max(0.0, centre - half), min(1.0, centre + half))
