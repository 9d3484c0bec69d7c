"""Two simple allocations: the largest marginal gain first, and the same number of bits for all."""

from __future__ import annotations

import heapq

import numpy as np

from lightning_async.coding.validation import FloatArray, IntArray


def marginal_greedy(table: FloatArray, budget: int) -> IntArray:
    """Give bit after bit to the worker whose utility grows most by one; optimal for concave utilities.

    Args:
        table: Utilities at 0..zmax bits, one row a worker.
        budget: Total bits.
    """
    bits = np.zeros(len(table), dtype=np.int64)
    add_marginal_bits(table, bits, budget)
    return bits


def add_marginal_bits(table: FloatArray, bits: IntArray, budget: int) -> None:
    """Add up to ``budget`` bits to an allocation in place, the largest marginal gain first."""
    zmax = table.shape[1] - 1
    gains = np.diff(table, axis=1)
    heap = [(-gains[i, z], i) for i, z in enumerate(bits) if z < zmax]
    heapq.heapify(heap)
    for _ in range(budget):
        if not heap:
            return
        _, worker = heap[0]
        bits[worker] += 1
        if bits[worker] < zmax:
            heapq.heapreplace(heap, (-gains[worker, bits[worker]], worker))
        else:
            heapq.heappop(heap)


def equal_split(table: FloatArray, budget: int) -> IntArray:
    """The same bits for every worker; what does not divide goes to the first rows, one bit each."""
    workers, zmax = len(table), table.shape[1] - 1
    share, rest = divmod(min(budget, workers * zmax), workers)
    bits = np.full(workers, share, dtype=np.int64)
    bits[:rest] += 1
    return bits
