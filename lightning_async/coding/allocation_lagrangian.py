"""Exact allocation for workers with different crest factors.

Greedy on the concave envelopes of the utilities gives a price per bit and an upper bound on U. An option (worker, bits)
that falls short of its worker's best at that price by more than the gap between the bound and a feasible allocation
cannot be in an optimum. Usually few workers keep more than one option, and a small dynamic program settles those.
"""

from __future__ import annotations

import numpy as np

from lightning_async.coding.allocation_dp import dynamic_program
from lightning_async.coding.allocation_greedy import add_marginal_bits
from lightning_async.coding.validation import FloatArray, IntArray

# Above this many entries the pruned program has no advantage over the plain one.
_MOST_ENTRIES = 50_000_000


def envelope_search(table: FloatArray, budget: int) -> IntArray:
    """Optimal allocation; fast unless many workers tie.

    Args:
        table: Utilities at 0..zmax bits, one row a worker.
        budget: Total bits.
    """
    workers, zmax = len(table), table.shape[1] - 1
    if budget >= workers * zmax:
        return np.full(workers, zmax, dtype=np.int64)
    feasible, price = _envelope_greedy(table, budget)
    rows = np.arange(workers)
    reduced = table - price * np.arange(zmax + 1)
    best = reduced.max(axis=1)
    bound = float(best.sum()) + price * budget
    gap = bound - float(table[rows, feasible].sum())
    slack = 1e-12 * max(bound, 1.0)
    if gap <= slack:
        return feasible
    losses = best[:, None] - reduced
    possible = losses <= gap + slack
    open_rows = np.flatnonzero(possible.sum(axis=1) > 1)
    bits: IntArray = np.argmax(possible, axis=1).astype(np.int64)
    width = int((zmax - np.argmax(possible[open_rows, ::-1], axis=1) - bits[open_rows]).sum()) + 1
    if len(open_rows) * width > _MOST_ENTRIES:
        return dynamic_program(table, budget)
    options = [np.flatnonzero(possible[row]) for row in open_rows]
    room = budget - int(bits.sum())
    choice = _least_loss([losses[row, o] for row, o in zip(open_rows, options, strict=True)], options, room, price)
    for row, option in zip(open_rows, choice, strict=True):
        bits[row] = option
    return bits


def _envelope_greedy(table: FloatArray, budget: int) -> tuple[IntArray, float]:
    """Feasible allocation from the concave envelopes, and the slope of the segment at which the budget runs out."""
    workers, zmax = len(table), table.shape[1] - 1
    slopes, starts, ends, owners = [], [], [], []
    at = np.zeros(workers, dtype=np.int64)
    active = np.arange(workers)
    while active.size:
        here = at[active]
        step = np.arange(zmax + 1)[None, :] - here[:, None]
        rise = table[active] - table[active, here][:, None]
        slope = np.where(step > 0, rise / np.where(step > 0, step, 1), -np.inf)
        # The last of equal slopes, so that a segment is as long as it can be.
        end = zmax - np.argmax(slope[:, ::-1], axis=1)
        slopes.append(slope[np.arange(active.size), end])
        starts.append(here)
        ends.append(end)
        owners.append(active)
        at[active] = end
        active = active[end < zmax]
    slope, start, end, owner = (np.concatenate(parts) for parts in (slopes, starts, ends, owners))
    order = np.lexsort((start, owner, -slope))
    spent = np.cumsum((end - start)[order])
    whole = int(np.searchsorted(spent, budget, side="right"))
    bits = np.zeros(workers, dtype=np.int64)
    np.maximum.at(bits, owner[order[:whole]], end[order[:whole]])
    price = max(float(slope[order[whole]]), 0.0) if whole < len(order) else 0.0
    left = budget - int(bits.sum())
    _use_leftover(table, bits, left)
    return bits, price


def _use_leftover(table: FloatArray, bits: IntArray, left: int) -> None:
    """Spend what the envelope left: the jump of one worker that gains most, then single bits."""
    zmax = table.shape[1] - 1
    rows = np.arange(len(table))
    jumps = np.minimum(bits[:, None] + np.arange(min(left, zmax) + 1)[None, :], zmax)
    gains = table[rows[:, None], jumps] - table[rows, bits][:, None]
    worker, jump = np.unravel_index(int(np.argmax(gains)), gains.shape)
    used = int(jumps[worker, jump] - bits[worker])
    bits[worker] += used
    add_marginal_bits(table, bits, left - used)


def _least_loss(losses: list[FloatArray], options: list[IntArray], room: int, price: float) -> list[int]:
    """Choose one option each so that the losses plus the price of unused bits are least.

    ``room`` counts the bits above everyone's smallest option.
    """
    values = np.zeros(1)
    rows = []
    for loss, option in zip(losses, options, strict=True):
        rows.append(values)
        extra = option - option[0]
        width = min(len(values) + int(extra[-1]), room + 1)
        result = np.full(width, np.inf)
        for z, cost in zip(extra.tolist(), loss.tolist(), strict=True):
            size = min(len(values), width - z)
            if size > 0:
                np.minimum(result[z : z + size], values[:size] + cost, out=result[z : z + size])
        values = result
    state = int(np.argmin(values + price * (room - np.arange(len(values)))))
    chosen = []
    for row, loss, option in zip(reversed(rows), reversed(losses), reversed(options), strict=True):
        before = state - (option - option[0])
        inside = (before >= 0) & (before < len(row))
        cost = np.where(inside, row[np.where(inside, before, 0)] + loss, np.inf)
        pick = int(np.argmin(cost))
        chosen.append(int(option[pick]))
        state = int(before[pick])
    return chosen[::-1]
