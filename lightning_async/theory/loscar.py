"""Wall-clock time of LOSCAR-SGD and of the local methods that it is compared with."""

from typing import Literal

from numpy.typing import ArrayLike

from lightning_async.arguments import choice, probability, real
from lightning_async.theory.update_time import harmonic_times

__all__ = ["loscar_time"]


def loscar_time(
    times: ArrayLike,
    steps: float,
    compute_window: float,
    communication_time: float,
    sparsity: float = 1.0,
    variant: Literal["corrected", "overwrite", "blocking"] = "corrected",
) -> float:
    """Time in which the average model makes a number of useful local steps, by the harmonic mean of the workers.

    LOSCAR-SGD (Maziane et al. 2026, arXiv 2605.20866) lets every worker compute for the same time, so that n workers
    make n T / H_n steps in time T, where H_n is the harmonic mean of their times: a slow worker costs its own steps,
    not those of the others. Of a round of compute_window + communication_time, corrected merging keeps all steps,
    blocking those of the compute window, and naive overwriting those and the share 1 - p of the rest (the count of
    useful steps is our derivation from the merge rules). Steps are taken as divisible: with whole ones it takes
    longer, but, if each phase that counts is at least as long as the slowest worker's step, at most twice as long,
    plus one round.

    Args:
        times: time of one local step for each worker, in logical time.
        steps: useful steps of the average model: mean over the workers.
        compute_window: time of a round before it communicates.
        communication_time: time of a round during which it communicates.
        sparsity: p = K/d in [0, 1], the share of coordinates that is sent; it matters for "overwrite" alone.
        variant: how the steps made while communicating are merged.

    Returns:
        The time, in logical time.

    Raises:
        TypeError: if an argument is of the wrong kind.
        ValueError: for an argument outside its range.

    Example:
        >>> [loscar_time([1.0, 4.0], 10, 4.0, 4.0, 0.5, variant) for variant in ("corrected", "overwrite", "blocking")]
        [16.0, 21.333333333333332, 32.0]
    """
    compute = real("compute_window", compute_window, above=0.0)
    communication = real("communication_time", communication_time, at_least=0.0)
    sparsity = probability("sparsity", sparsity, note=", the share of coordinates that is sent")
    shares = {"corrected": 1.0, "overwrite": 1.0 - sparsity, "blocking": 0.0}
    useful = compute + shares[choice("variant", variant, tuple(shares))] * communication
    return float(real("steps", steps, at_least=0.0) * harmonic_times(times)[-1] * (compute + communication) / useful)
