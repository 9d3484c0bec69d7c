"""The dynamic program over workers and bits (Song and Choi 2026, with a cap on the bits of a worker)."""

from __future__ import annotations

import math

import numpy as np

from lightning_async.coding.validation import FloatArray, IntArray


def dynamic_program(table: FloatArray, budget: int) -> IntArray:
    """Optimal allocation in O(k Z zmax) time.

    Only every sqrt(k)-th row of values is kept; the rows between are computed again on the way back, so memory is
    O(sqrt(k) Z) at twice the time.

    Args:
        table: Utilities at 0..zmax bits, one row a worker; any shape, not only sigmoid.
        budget: Total bits Z.
    """
    workers, zmax = len(table), table.shape[1] - 1
    remaining = min(budget, workers * zmax)
    stride = max(1, math.isqrt(workers))
    scratch = np.empty(remaining + 1)
    values = np.zeros(remaining + 1)
    kept = {}
    for i in range(workers):
        if i % stride == 0:
            kept[i] = values
        values = _add_worker(values, table[i], scratch)
    bits = np.zeros(workers, dtype=np.int64)
    for start in reversed(kept):
        stop = min(start + stride, workers)
        rows = [kept[start]]
        for i in range(start, stop - 1):
            rows.append(_add_worker(rows[-1], table[i], scratch))
        for i in range(stop - 1, start - 1, -1):
            most = min(zmax, remaining)
            before = rows[i - start][remaining - most : remaining + 1][::-1]
            bits[i] = int(np.argmax(before + table[i, : most + 1]))
            remaining -= int(bits[i])
    return bits


def _add_worker(values: FloatArray, gains: FloatArray, scratch: FloatArray) -> FloatArray:
    """Best values for every budget with one worker more."""
    result = values.copy()
    for z in range(1, min(len(gains), len(values))):
        candidate = np.add(values[:-z], gains[z], out=scratch[z:])
        np.maximum(result[z:], candidate, out=result[z:])
    return result
