"""The low-complexity allocation of Song and Choi (arXiv 2605.15890): water filling over prefixes, then bit swaps."""

from __future__ import annotations

import numpy as np

from lightning_async.coding.allocation_greedy import add_marginal_bits, equal_split
from lightning_async.coding.validation import FloatArray, IntArray

_BISECTIONS = 60


def top_k_search(table: FloatArray, slopes: FloatArray, budget: int) -> IntArray:
    """Best over prefixes of the most reliable workers of two starts, each improved by swaps of one bit.

    The starts are the Lagrangian water filling of the prefix (bisection on the multiplier), rounded down with the
    remaining bits by marginal gain, and equal bits with the remainder to the most reliable. Not always optimal.

    Args:
        table: Utilities at 0..zmax bits, rows sorted from the most to the least reliable worker.
        slopes: Derivatives of the utilities by bits on an even grid over [0, zmax], as from `utility_slopes`.
        budget: Total bits.
    """
    gains = np.diff(table, axis=1)
    filled = _water_filling(slopes, gains.shape[1], budget)
    best = np.zeros(len(table), dtype=np.int64)
    best_value = -1.0
    for m in range(1, len(table) + 1):
        starts = [equal_split(table[:m], budget)]
        if filled[m - 1] is not None:
            start = np.asarray(filled[m - 1])
            add_marginal_bits(table[:m], start, budget - int(start.sum()))
            starts.append(start)
        for bits in starts:
            _swap(gains[:m], bits)
            value = float(table[np.arange(m), bits].sum())
            if value > best_value:
                best_value = value
                best[:] = 0
                best[:m] = bits
    return best


def _water_filling(slopes: FloatArray, zmax: int, budget: int) -> list[IntArray | None]:
    """Rounded-down water filling of every prefix; None where even the starts of the concave branches exceed the budget.

    The water level of a worker is the inverse of its slope on the concave branch, where the slope falls from its peak.

    Args:
        slopes: Derivatives of the utilities by bits on an even grid over [0, zmax], one row a worker.
        zmax: Most bits of a worker.
        budget: Total bits.
    """
    workers = len(slopes)
    place = np.linspace(0.0, zmax, slopes.shape[1])
    peak = np.argmax(slopes, axis=1)
    branches = [(slopes[i, peak[i] :][::-1], place[peak[i] :][::-1]) for i in range(workers)]
    low = np.full(workers, float(slopes.min()))
    high = np.full(workers, float(slopes.max()))
    prefix = np.arange(workers)[:, None] >= np.arange(workers)[None, :]

    def level(multiplier: FloatArray) -> FloatArray:
        bits = np.stack([np.interp(multiplier, branch, at) for branch, at in branches], axis=1)
        return np.where(prefix, bits, 0.0)

    for _ in range(_BISECTIONS):
        middle = 0.5 * (low + high)
        over = level(middle).sum(axis=1) > budget
        low, high = np.where(over, middle, low), np.where(over, high, middle)
    rounded = np.floor(level(high) + 1e-9).astype(np.int64)
    fits = rounded.sum(axis=1) <= budget
    return [rounded[m, : m + 1].copy() if fits[m] else None for m in range(workers)]


def _swap(gains: FloatArray, bits: IntArray) -> None:
    """Move single bits to where they are worth more until no move improves; in place."""
    zmax = gains.shape[1]
    rows = np.arange(len(bits))
    for _ in range(int(bits.sum()) * len(bits)):
        up = np.where(bits < zmax, gains[rows, np.minimum(bits, zmax - 1)], -np.inf)
        down = np.where(bits > 0, gains[rows, np.maximum(bits - 1, 0)], np.inf)
        taker, giver = int(np.argmax(up)), int(np.argmin(down))
        if taker == giver:
            others = rows != taker
            if not others.any():
                return
            second_up = int(np.argmax(np.where(others, up, -np.inf)))
            second_down = int(np.argmin(np.where(others, down, np.inf)))
            if up[taker] - down[second_down] >= up[second_up] - down[giver]:
                giver = second_down
            else:
                taker = second_up
        if not up[taker] > down[giver] * (1 + 1e-12):
            return
        bits[taker] += 1
        bits[giver] -= 1
