"""Bit allocation: which workers send, and with how many bits a coordinate.

Maximise U(z) = sum_i u_i(z_i) over whole numbers 0 <= z_i <= zmax with sum z_i <= budget (Song and Choi 2026,
arXiv 2605.15890). The utility of a worker is sigmoid in its bits, so that adding bits greedily can go wrong.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from lightning_async.arguments import choice, count
from lightning_async.coding.allocation_dp import dynamic_program
from lightning_async.coding.allocation_exact import prefix_search
from lightning_async.coding.allocation_greedy import equal_split, marginal_greedy
from lightning_async.coding.allocation_lagrangian import envelope_search
from lightning_async.coding.allocation_top_k import top_k_search
from lightning_async.coding.validation import FloatArray, IntArray, as_crest_factors, as_probabilities
from lightning_async.coding.variance import QuantizerName, check_zmax, utility_slopes, utility_table

AllocationMethod: TypeAlias = Literal["exact", "dp", "top_k", "greedy", "equal"]

_SEARCHES: dict[str, Callable[[FloatArray, int], IntArray]] = {"dp": dynamic_program, "greedy": marginal_greedy}


def allocate_bits(
    p: npt.ArrayLike,
    budget: int,
    *,
    kappa: npt.ArrayLike,
    zmax: int = 16,
    quantizer: QuantizerName = "dither",
    method: AllocationMethod = "exact",
) -> IntArray:
    """Distribute a budget of bits a coordinate over the workers.

    Args:
        p: Straggling probabilities, one a worker.
        budget: Total bits a coordinate over all workers, Z.
        kappa: Squared crest factor of the messages, one number or one per worker; measure it, do not bound it.
        zmax: Most bits of one worker, at most 16.
        quantizer: Whose variance counts, see `relative_variance`.
        method: ``"exact"`` (optimal, time independent of the budget for one common kappa), ``"dp"`` (optimal,
            O(k Z zmax)), ``"top_k"`` (the paper's low-complexity method, close to optimal), ``"greedy"`` (always the
            largest marginal gain; optimal only where utilities are concave) or ``"equal"`` (blind to everything).

    Returns:
        Bits of every worker. All zero if the budget leaves no worker a bit that helps.

    Raises:
        TypeError: If an argument is of the wrong kind.
        ValueError: For probabilities outside [0, 1], a negative budget, or an unknown method or quantizer.

    Example:
        >>> allocate_bits([0.05, 0.3, 1.0, 0.1], 10, kappa=9.0, quantizer="rounding").tolist()
        [6, 0, 0, 4]
    """
    straggling = as_probabilities(p)
    crest = as_crest_factors(kappa, straggling.size)
    total = count("budget", budget, at_least=0)
    choice("method", method, get_args(AllocationMethod))
    order = np.argsort(straggling, kind="stable")
    table = utility_table(straggling, crest, quantizer, check_zmax(zmax))[order]
    bits = np.zeros(straggling.size, dtype=np.int64)
    if method == "equal":
        bits[order] = equal_split(table, total)
        return bits
    # A perfect worker (infinite utility) takes the few bits that make it so; the rest is shared by the others.
    for row in np.flatnonzero(np.isinf(table[:, -1])):
        needed = int(np.argmax(np.isinf(table[row])))
        if needed <= total:
            bits[order[row]], total = needed, total - needed
    useful = np.flatnonzero(np.isfinite(table[:, -1]) & (table[:, -1] > 0))
    if useful.size and total:
        workers = order[useful]
        if method == "top_k":
            slopes = utility_slopes(straggling[workers], crest[workers], quantizer, zmax)
            bits[workers] = top_k_search(table[useful], slopes, total)
        else:
            search = _SEARCHES.get(method) or (prefix_search if np.unique(crest).size == 1 else envelope_search)
            bits[workers] = search(table[useful], total)
    # Bits that are too few for the quantizer are not sent, and so not given.
    useless = table[np.arange(order.size), bits[order]] == 0.0
    bits[order[useless]] = 0
    return bits
