"""Exact allocation for workers that share one crest factor, in time that does not depend on the budget.

With a common kappa the marginal gains D_i(z) = u_i(z) - u_i(z - 1) are larger for more reliable workers, and each
utility is convex up to L_i bits and concave from there. So the workers that send are the most reliable ones, and at
most one of them, the least reliable, stays in its convex part: two could trade bits to the gain of one of them.
"""

from __future__ import annotations

import heapq

import numpy as np

from lightning_async.coding.validation import FloatArray, IntArray


def prefix_search(table: FloatArray, budget: int) -> IntArray:
    """Optimal allocation in O(k zmax log(k zmax)).

    For every prefix of m workers with at least L_i bits each, and every number e < L_m of bits for worker m, the rest
    of the budget buys the largest concave marginals of the prefix. As m grows the bought set only loses elements to
    new ones, so that one min-heap serves all prefixes.

    Args:
        table: Utilities at 0..zmax bits, rows sorted from the most to the least reliable worker, one common kappa.
        budget: Total bits.
    """
    zmax = table.shape[1] - 1
    gains = np.diff(table, axis=1)
    least = _concave_from(gains)
    gain_rows, value_rows, least_bits = gains.tolist(), table.tolist(), least.tolist()
    bought: list[float] = []
    bought_value = base = 0.0
    mandatory = 0
    best_value, best_prefix, best_extra = -1.0, 0, 0
    for m in range(len(table) + 1):
        free = budget - mandatory
        if free < 0:
            break
        values = value_rows[m] if m < len(table) else [0.0]
        for extra in range(min(least_bits[m] if m < len(table) else 1, free + 1)):
            while len(bought) > free - extra:
                bought_value -= heapq.heappop(bought)
            value = base + bought_value + values[extra]
            if value > best_value:
                best_value, best_prefix, best_extra = value, m, extra
        if m == len(table):
            break
        mandatory += least_bits[m]
        base += values[least_bits[m]]
        room = budget - mandatory
        for z in range(least_bits[m], zmax):
            gain = gain_rows[m][z]
            if len(bought) >= room and (not bought or gain <= bought[0]):
                break
            heapq.heappush(bought, gain)
            bought_value += gain
    return _rebuild(gains, least, budget, best_prefix, best_extra)


def _concave_from(gains: FloatArray) -> IntArray:
    """L: the first number of bits z >= 1 whose next marginal is smaller; zmax if there is none."""
    falls = gains[:, 1:] < gains[:, :-1]
    first = np.argmax(falls, axis=1) + 1 if falls.shape[1] else np.ones(len(gains), dtype=np.int64)
    result: IntArray = np.where(falls.any(axis=1), first, gains.shape[1]).astype(np.int64)
    return result


def _rebuild(gains: FloatArray, least: IntArray, budget: int, prefix: int, extra: int) -> IntArray:
    bits = np.zeros(len(gains), dtype=np.int64)
    if prefix < len(gains):
        bits[prefix] = extra
    bits[:prefix] = least[:prefix]
    worker, position = np.nonzero(np.arange(gains.shape[1])[None, :] >= least[:prefix, None])
    order = np.argsort(-gains[worker, position], kind="stable")[: budget - extra - int(least[:prefix].sum())]
    bits[:prefix] += np.bincount(worker[order], minlength=prefix).astype(np.int64)
    return bits
