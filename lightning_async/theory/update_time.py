"""How long updates take when workers have different speeds: H_m, t(R) and what follows for Ringmaster and Rennala."""

import math
from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lightning_async.arguments import array, count, real

__all__ = [
    "PowerProfile",
    "harmonic_times",
    "rennala_time",
    "ringmaster_time",
    "update_time",
    "update_time_universal",
]

# Work that is an integer up to the rounding of an integral is that integer.
_ROUNDING = 1e-9
_LONGEST_TIME = 2.0**100


class PowerProfile(Protocol):
    """Computing power of one worker over time; those of `lightning_async.simulation` are such profiles."""

    def work(self, start: float, end: float) -> float:
        """Gradients that can be computed between two times: the integral of the power."""
        ...


def harmonic_times(times: ArrayLike) -> NDArray[np.float64]:
    """H_m, the harmonic mean of the m smallest worker times, for m = 1..n.

    H_m = ((1/m) sum_{i <= m} 1/tau_i)^{-1}: m workers of time H_m would be as fast together as the m fastest are
    (Maranjyan, Tyurin and Richtarik 2025, arXiv 2501.16168; Sadiev et al. 2026, arXiv 2605.18174).

    Args:
        times: time of one gradient for each worker, in any order, in logical time.

    Returns:
        Array of shape (n,), not decreasing.

    Raises:
        TypeError: if an argument is of the wrong kind.
        ValueError: if a time is not positive, or all are infinite.

    Example:
        >>> harmonic_times([4.0, 1.0])
        array([1. , 1.6])
    """
    sorted_times = _sorted_times(times)
    return np.arange(1, sorted_times.size + 1) / np.cumsum(1.0 / sorted_times)


def update_time(times: ArrayLike, threshold: int) -> float:
    """t(R) = 2 min_m H_m (1 + R/m): no R consecutive updates of Ringmaster take longer, whenever they start.

    Fixed computation model, worker i needs tau_i for each gradient (arXiv 2501.16168, and arXiv 2605.18174 for the LMO
    methods). With stops or without. Also the time in which R gradients arrive from workers that start together, for
    which it is at most four times too long: Rennala's case (arXiv 2305.12387).

    Args:
        times: time of one gradient for each worker, in logical time.
        threshold: R >= 1, delay from which a gradient is discarded.

    Returns:
        The bound, in logical time.

    Raises:
        TypeError: if an argument is of the wrong kind.
        ValueError: if a time is not positive or R < 1.

    Example:
        >>> update_time([1.0, 4.0], threshold=2)
        6.0
    """
    means = harmonic_times(times)
    workers = np.arange(1, means.size + 1)
    return float(2.0 * np.min(means * (1.0 + count("threshold", threshold) / workers)))


def update_time_universal(powers: Sequence[PowerProfile], threshold: int, start: float = 0.0) -> float:
    """t(R; T0): no R consecutive updates of Ringmaster that start at T0 take longer, whatever the workers' powers do.

    Universal computation model (arXiv 2605.18174, after arXiv 2501.16168): the smallest t with
    sum_i floor((1/4) int_{T0}^{T0 + t} p_i) >= R.

    Args:
        powers: profile of each worker, for example ``PowerTimes(...).powers``.
        threshold: R >= 1.
        start: T0 >= 0, in logical time.

    Returns:
        The bound, in logical time, to a relative accuracy of 1e-9; infinite if the workers never do enough.

    Raises:
        TypeError: if an argument is of the wrong kind.
        ValueError: if there is no worker, R < 1 or T0 < 0.

    Example:
        >>> from lightning_async.simulation import ConstantPower
        >>> round(update_time_universal([ConstantPower(1.0), ConstantPower(0.25)], threshold=3), 6)
        12.0
    """
    required, start = count("threshold", threshold), real("start", start, at_least=0.0)
    if len(powers) == 0:
        raise ValueError("powers is empty: give one profile for each of at least one worker")

    def gradients(duration: float) -> int:
        quarters = (power.work(start, start + duration) / 4.0 for power in powers)
        return sum(math.floor(quarter * (1.0 + _ROUNDING)) for quarter in quarters)

    late = 1.0
    while gradients(late) < required:
        late *= 2.0
        if late > _LONGEST_TIME:
            return math.inf
    early = 0.0
    while late - early > _ROUNDING * late:
        middle = 0.5 * (early + late)
        early, late = (early, middle) if gradients(middle) >= required else (middle, late)
    return late


def ringmaster_time(times: ArrayLike, threshold: int, updates: int) -> float:
    """Time in which Ringmaster makes K updates at the latest: ceil(K/R) t(R).

    arXiv 2501.16168 (time complexity of Ringmaster ASGD); the schedule, hence the bound, is the same for Ringmaster
    LMO (arXiv 2605.18174).

    Args:
        times: time of one gradient for each worker, in logical time.
        threshold: R >= 1.
        updates: K >= 1.

    Returns:
        The bound, in logical time.

    Raises:
        TypeError: if an argument is of the wrong kind.
        ValueError: if a time is not positive, R < 1 or K < 1.

    Example:
        >>> ringmaster_time([1.0, 4.0], threshold=2, updates=5)
        18.0
    """
    return math.ceil(count("updates", updates) / count("threshold", threshold)) * update_time(times, threshold)


def rennala_time(times: ArrayLike, batch: int, updates: int) -> float:
    """Time in which Rennala SGD makes K updates at the latest: K t(B), and never less than a quarter of it.

    Tyurin and Richtarik 2023 (arXiv 2305.12387). The lower factor is ours: with m workers of time at most t, a round of
    length t needs t >= H_m and t >= B H_m / m.

    Args:
        times: time of one gradient for each worker, in logical time.
        batch: B >= 1, gradients of a step.
        updates: K >= 1.

    Returns:
        The bound, in logical time.

    Raises:
        TypeError: if an argument is of the wrong kind.
        ValueError: if a time is not positive, B < 1 or K < 1.

    Example:
        >>> rennala_time([1.0, 4.0], batch=2, updates=5)
        30.0
    """
    return count("updates", updates) * update_time(times, count("batch", batch))


def _sorted_times(times: ArrayLike) -> NDArray[np.float64]:
    """Times of one gradient, sorted; infinite for a worker that never answers."""
    given = array("times", times)
    if given.ndim != 1 or given.size == 0:
        raise ValueError(f"times has shape {given.shape}; give one positive time for each of at least one worker")
    given = np.sort(given)
    if not given[0] > 0 or np.isnan(given).any():
        raise ValueError(f"times holds {given[0] if given[0] <= 0 else 'nan'}; every time must be positive")
    if not np.isfinite(given[0]):
        raise ValueError("times are all infinite: at least one worker must answer")
    return given
