"""How much of the gradient each worker represents: the row sums s_i of the best unbiased codes.

Over all unbiased codes the smallest guaranteed error is C^2 K^2 / U, reached by every code B >= 0 with unit column sums
and row sums s_i = K u_i / U.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from lightning_async.arguments import array, count, real
from lightning_async.coding.validation import FloatArray, as_bits, as_crest_factors, as_probabilities
from lightning_async.coding.variance import QuantizerName, relative_variance, worker_utility


def loads(
    z: npt.ArrayLike,
    p: npt.ArrayLike,
    *,
    partitions: int,
    kappa: npt.ArrayLike,
    quantizer: QuantizerName = "dither",
    cap: float | None = None,
) -> FloatArray:
    """Row sums of the optimal code for a bit allocation; they add up to the number of partitions.

    Args:
        z: Bits a coordinate of every worker, 0 = not used.
        p: Straggling probabilities.
        partitions: Number of partitions K.
        kappa: Squared crest factor of the messages, one number or one per worker.
        quantizer: See `relative_variance`.
        cap: Largest load of one worker, in partitions; what is cut off goes to the others in proportion (water
            filling). None for no limit.

    Raises:
        TypeError: If an argument is of the wrong kind.
        ValueError: If no worker is useful (no bits, or all straggle for certain), or the cap is too small for the used
            workers to hold all partitions.

    Example:
        >>> loads([4, 4, 0, 0], [0.2] * 4, partitions=4, kappa=9.0, quantizer="rounding").tolist()
        [2.0, 2.0, 0.0, 0.0]
    """
    straggling = as_probabilities(p)
    bits = as_bits(z, straggling.size)
    q = relative_variance(bits, as_crest_factors(kappa, straggling.size), quantizer)
    return proportional_loads(worker_utility(straggling, q), partitions, cap=cap)


def proportional_loads(utilities: FloatArray, partitions: int, *, cap: float | None = None) -> FloatArray:
    """Loads in proportion to utilities, no larger than ``cap``; workers of infinite utility share first.

    Args:
        utilities: One a worker, at least 0.
        partitions: Number of partitions K.
        cap: Largest load of one worker, see `loads`.

    Raises:
        TypeError: If an argument is of the wrong kind.
        ValueError: If all utilities are zero, one is negative or NaN, or the cap cannot be kept.
    """
    utilities = array("utilities", utilities)
    if utilities.ndim != 1 or not np.all(utilities >= 0):
        raise ValueError(
            f"utilities must be a vector with one number of at least 0 per worker; got {utilities.tolist()}."
        )
    total = float(count("partitions", partitions))
    used = int((utilities > 0).sum())
    if not used:
        raise ValueError(
            "No worker is useful: every one has too few bits for its quantizer or straggles with probability 1. "
            "Raise the bit budget, or let some p be below 1."
        )
    limit = np.inf if cap is None else real("cap", cap, above=0.0, finite=False, note=", or None for no limit")
    if not limit * used >= total * (1 - 1e-12):
        raise ValueError(
            f"A load cap of {cap} on {used} used workers cannot hold {partitions} partitions. Use a cap of at least "
            f"{total / used:.4g}, or more bits so that more workers are used."
        )
    perfect = np.isinf(utilities)
    result = np.zeros_like(utilities)
    if perfect.any():
        result[perfect] = min(limit, total / perfect.sum())
        total -= float(result.sum())
    others = np.where(perfect, 0.0, utilities)
    if total > 1e-12 * partitions and others.any():
        result += _water_fill(others, total, limit)
    return result


def _water_fill(utilities: FloatArray, total: float, limit: float) -> FloatArray:
    """min(limit, t u) with t such that the sum is ``total``."""
    full = np.zeros(utilities.shape, dtype=bool)
    # Scaled by the largest, so that sums of huge utilities do not lose the small ones' proportion.
    share = utilities / utilities.max()
    result = np.zeros_like(utilities)
    while True:
        free = ~full & (share > 0)
        rest = total - limit * full.sum() if full.any() else total
        result = np.where(full, limit, 0.0)
        if free.any():
            result[free] = rest * share[free] / share[free].sum()
        over = free & (result > limit * (1 + 1e-12))
        if not over.any():
            return result
        full |= over
