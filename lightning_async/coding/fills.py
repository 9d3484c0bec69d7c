"""Codes with given row sums: how the workers' loads are laid over the partitions.

Every fill returns an effective code B >= 0, (workers, partitions), with row sums equal to the loads and unit column
sums. All have the same guaranteed error; they differ in how many workers compute a partition, and in the error when
partition gradients are not aligned.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from lightning_async.arguments import array, count
from lightning_async.coding.validation import FloatArray


def interval_fill(loads: npt.ArrayLike, partitions: int) -> FloatArray:
    """Cut [0, K] into consecutive intervals of the loads' lengths (the north-west corner rule).

    At most k + K - 1 entries are not zero, so a partition is computed less than twice on average.

    Args:
        loads: Row sums s_i, not negative, adding up to ``partitions``.
        partitions: Number of partitions K.

    Raises:
        TypeError: If an argument is of the wrong kind.
        ValueError: If the loads are negative or do not add up to the number of partitions.

    Example:
        >>> interval_fill([1.5, 0.5], 2).tolist()
        [[1.0, 0.5], [0.0, 0.5]]
    """
    sizes = _check_loads(loads, partitions)
    edges = np.concatenate(([0.0], np.cumsum(sizes)))
    edges *= partitions / edges[-1]
    # Edges that miss a partition border by rounding only would make entries of 1e-16.
    nearest = np.round(edges)
    edges = np.where(np.abs(edges - nearest) <= 1e-12 * partitions, nearest, edges)
    start = np.arange(partitions, dtype=np.float64)
    overlap = np.minimum(edges[1:, None], start + 1.0) - np.maximum(edges[:-1, None], start)
    filled: FloatArray = np.maximum(0.0, overlap)
    return filled


def alias_fill(loads: npt.ArrayLike, partitions: int) -> FloatArray:
    """At most two workers for every partition, by Walker's construction of alias tables.

    Args:
        loads: Row sums s_i, not negative, adding up to ``partitions``.
        partitions: Number of partitions K, at least the number of workers with a positive load.

    Raises:
        TypeError: If an argument is of the wrong kind.
        ValueError: If there are fewer partitions than used workers, or the loads do not add up.

    Example:
        >>> alias_fill([2.5, 0.25, 0.25], 3).tolist()
        [[0.75, 0.75, 1.0], [0.25, 0.0, 0.0], [0.0, 0.25, 0.0]]
    """
    sizes = _check_loads(loads, partitions)
    left = sizes * (partitions / sizes.sum())
    left[left <= 1e-12] = 0.0
    if (left > 0).sum() > partitions:
        raise ValueError(
            "The alias fill gives every partition at most two workers and so needs at least as many partitions as used "
            f"workers; got {partitions} for {int((left > 0).sum())}. Use more partitions, fewer bits, or the interval "
            "fill."
        )
    code = np.zeros((len(left), partitions))
    small = [i for i in range(len(left)) if 0 < left[i] < 1][::-1]
    large = [i for i in range(len(left)) if left[i] >= 1][::-1]
    for j in range(partitions):
        room = 1.0
        if small:
            worker = small.pop()
            code[worker, j] = min(left[worker], 1.0)
            room -= code[worker, j]
        if large and room > 0:
            worker = large[-1]
            code[worker, j] += room
            left[worker] -= room
            if left[worker] < 1:
                large.pop()
                if left[worker] > 1e-12:
                    small.append(worker)
        elif room > 0:
            # Only rounding is missing: the last small load was one up to its last places.
            code[worker, j] += room
    return code


def spread_fill(loads: npt.ArrayLike, partitions: int, rotations: int = 4) -> FloatArray:
    """Average of interval fills whose partitions are rotated against each other.

    A partition is computed at most 2 ``rotations`` times on average. The error is smaller than that of one interval
    fill when partition gradients are not aligned, and the same when they are.

    Args:
        loads: Row sums s_i, not negative, adding up to ``partitions``.
        partitions: Number of partitions K.
        rotations: Number of rotated copies r.

    Raises:
        TypeError: If an argument is of the wrong kind.
        ValueError: If the loads do not add up or ``rotations`` is below 1.

    Example:
        >>> spread_fill([1.0, 1.0], 2, rotations=2).tolist()
        [[0.5, 0.5], [0.5, 0.5]]
    """
    base = interval_fill(loads, partitions)
    copies = count("rotations", rotations)
    shifts = [t * partitions // copies for t in range(copies)]
    average: FloatArray = np.mean([np.roll(base, shift, axis=1) for shift in shifts], axis=0, dtype=np.float64)
    return average


def _check_loads(loads: npt.ArrayLike, partitions: int) -> FloatArray:
    sizes = array("loads", loads)
    total = count("partitions", partitions)
    if sizes.ndim != 1 or not sizes.size or not np.all(sizes >= 0) or not np.isclose(sizes.sum(), total, rtol=1e-9):
        raise ValueError(
            f"loads must be a vector of row sums, not negative, that add up to the {partitions} partitions, as "
            f"`loads(...)` returns; got shape {sizes.shape} with sum {sizes.sum()}."
        )
    return sizes
