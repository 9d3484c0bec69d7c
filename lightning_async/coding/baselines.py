"""The gradient codes that the optimal one is compared with.

Rows need no normalisation: quantisers scale with their input, so only A_ij times the decoder's weight matters.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from lightning_async.arguments import boolean, count, random_seed
from lightning_async.coding.codes import GradientCode
from lightning_async.coding.decoders import FixedDecoder, GroupDecoder, LeastSquaresDecoder, SurvivorMean
from lightning_async.coding.validation import FloatArray, IntArray, as_probabilities


def uncoded(p: npt.ArrayLike, *, partitions: int, importance: bool = True) -> GradientCode:
    """Every partition at one worker.

    Args:
        p: Straggling probabilities.
        partitions: Number of partitions K, dealt out in equal runs of neighbours.
        importance: Weight messages by 1 / (1 - p_i), unbiased; otherwise ignore stragglers: the mean of the survivors.

    Raises:
        TypeError: If an argument is of the wrong kind.
        ValueError: If an importance weight would be infinite.

    Example:
        >>> uncoded([0.0, 0.5], partitions=2).decoder.weights(np.array([True, True])).tolist()
        [1.0, 2.0]
    """
    straggling = as_probabilities(p)
    assignment = _one_each(straggling.size, count("partitions", partitions))
    if not boolean("importance", importance):
        return GradientCode(assignment, SurvivorMean(assignment))
    _require_arrivals(straggling, np.any(assignment != 0, axis=1))
    return GradientCode(assignment, FixedDecoder(_inverse_arrival(straggling)))


def sgc(p: npt.ArrayLike, *, partitions: int, replication: int = 2, seed: int = 0) -> GradientCode:
    """Stochastic gradient coding: each partition to d random workers, A_ij = 1 / ((1 - p_i) d).

    Bitar, Wootters and El Rouayheb 2020 (arXiv 1905.05383).

    Args:
        p: Straggling probabilities.
        partitions: Number of partitions.
        replication: Workers for a partition, d.
        seed: Of the random assignment.

    Raises:
        TypeError: If an argument is of the wrong kind.
        ValueError: If fewer than d workers ever arrive.

    Example:
        >>> sgc([0.5, 0.5], partitions=1).assignment.tolist()
        [[1.0], [1.0]]
    """
    straggling = as_probabilities(p)
    alive = np.flatnonzero(straggling < 1.0)
    _check_replication(replication, alive.size, "workers that ever arrive")
    rng = np.random.default_rng(random_seed(seed))
    assignment = np.zeros((straggling.size, count("partitions", partitions)))
    for j in range(partitions):
        assignment[rng.choice(alive, size=replication, replace=False), j] = 1.0
    assignment *= _inverse_arrival(straggling)[:, None] / replication
    return GradientCode(assignment, FixedDecoder(np.ones(straggling.size)))


def bgc(
    p: npt.ArrayLike, *, partitions: int, replication: int = 2, rescale: bool = True, seed: int = 0
) -> GradientCode:
    """Bernoulli gradient coding: A_ij in {0, 1} with probability d / k of a one.

    Charles, Papailiopoulos and Ellenberg 2017 (arXiv 1711.06771).

    Args:
        p: Straggling probabilities.
        partitions: Number of partitions.
        replication: Expected workers for a partition, d.
        rescale: Weights 1 / (d (1 - p_i)), unbiased over the draw of A; False for weights 1 as published, biased.
        seed: Of the random assignment.

    Raises:
        TypeError: If an argument is of the wrong kind.
        ValueError: If d is above the number of workers, or no worker of the rescaled version ever arrives.

    Example:
        >>> bgc([0.5, 0.5], partitions=1, replication=2).decoder.weights(np.array([True, True])).tolist()
        [1.0, 1.0]
    """
    straggling = as_probabilities(p)
    _check_replication(replication, straggling.size, "workers")
    if boolean("rescale", rescale) and np.all(straggling == 1.0):
        raise ValueError("Every worker has p = 1, so no weight is unbiased; let some p be below 1, or rescale=False.")
    rng = np.random.default_rng(random_seed(seed))
    draw = rng.random((straggling.size, count("partitions", partitions)))
    assignment = (draw < replication / straggling.size).astype(np.float64)
    weights = _inverse_arrival(straggling) / replication if rescale else np.ones(straggling.size)
    return GradientCode(assignment, FixedDecoder(weights))


def erasure_head(p: npt.ArrayLike, *, partitions: int, replication: int = 2, rescale: bool = True) -> GradientCode:
    """ErasureHead: groups of d workers, neighbours in the order of p, hold the same d partitions.

    Wang, Charles and Papailiopoulos 2019 (arXiv 1901.09671).

    Args:
        p: Straggling probabilities.
        partitions: Number of partitions, dealt to the groups in proportion to their sizes.
        replication: Workers of a group, d; the last group is smaller when d does not divide the workers.
        rescale: Mean of a group's survivors over the probability that there is one, unbiased; False for the sum of one
            survivor a group as published, biased.

    Raises:
        TypeError: If an argument is of the wrong kind.
        ValueError: If the rescaled version has a group that never arrives.

    Example:
        >>> erasure_head([0.5, 0.5], partitions=2).assignment.tolist()
        [[1.0, 1.0], [1.0, 1.0]]
    """
    straggling = as_probabilities(p)
    workers = straggling.size
    _check_replication(replication, workers, "workers")
    groups = np.empty(workers, dtype=np.int64)
    groups[np.argsort(straggling, kind="stable")] = np.arange(workers) // replication
    num_groups = int(groups.max()) + 1
    lost = np.array([np.prod(straggling[groups == g]) for g in range(num_groups)])
    sorted_owner = np.arange(count("partitions", partitions)) * workers // partitions
    assignment = (groups[:, None] == (sorted_owner // replication)[None, :]).astype(np.float64)
    if boolean("rescale", rescale) and np.any(lost == 1.0):
        raise ValueError("Every worker of one group has p = 1; use larger groups (replication) or rescale=False.")
    scale = 1.0 / (1.0 - lost) if rescale else np.ones(num_groups)
    return GradientCode(assignment, GroupDecoder(groups, scale, average=rescale))


def fractional_repetition(workers: int, *, partitions: int, tolerance: int = 1) -> GradientCode:
    """Fractional repetition code: exact when at most s workers straggle.

    Tandon, Lei, Dimakis and Karampatziakis 2017 (arXiv 1612.03301), section 3.1. Beyond s stragglers the decoder comes
    as close as it can.

    Args:
        workers: Number of workers k, a multiple of s + 1.
        partitions: Number of partitions.
        tolerance: Stragglers s that are tolerated.

    Raises:
        TypeError: If an argument is of the wrong kind.
        ValueError: If s + 1 does not divide the number of workers.

    Example:
        >>> fractional_repetition(4, partitions=4).assignment.tolist()[0]
        [1.0, 1.0, 0.0, 0.0]
    """
    size = count("tolerance", tolerance, at_least=0) + 1
    if count("workers", workers) % size:
        raise ValueError(
            f"A fractional repetition code needs tolerance + 1 to divide the workers; got {size} and {workers}. "
            "Use the cyclic code, which works for any number."
        )
    groups = np.arange(workers) // size
    owner = _owners(workers, count("partitions", partitions))
    assignment = (groups[:, None] == (owner // size)[None, :]).astype(np.float64)
    return GradientCode(assignment, LeastSquaresDecoder(assignment))


def cyclic(workers: int, *, partitions: int, tolerance: int = 1, seed: int = 0) -> GradientCode:
    """Cyclic repetition code: exact when at most s workers straggle, for any number of workers.

    Tandon, Lei, Dimakis and Karampatziakis 2017 (arXiv 1612.03301), algorithm 2: row i is supported on i, ..., i + s
    and orthogonal to a random s-dimensional space that is orthogonal to the all-ones vector.

    Args:
        workers: Number of workers k.
        partitions: Number of partitions.
        tolerance: Stragglers s that are tolerated, less than ``workers``.
        seed: Of the random space.

    Raises:
        TypeError: If an argument is of the wrong kind.
        ValueError: If ``tolerance`` is not below ``workers``.

    Example:
        >>> code = cyclic(3, partitions=3, tolerance=1)
        >>> weights = code.decoder.weights(np.array([True, False, True]))
        >>> np.round(weights @ code.assignment, 6).tolist()
        [1.0, 1.0, 1.0]
    """
    size = count("tolerance", tolerance, at_least=0)
    if size >= count("workers", workers):
        raise ValueError(f"tolerance must be below the number of workers ({workers}); got {tolerance}.")
    # A small minor of the random matrix would make huge coefficients; keep the tamest of a few draws.
    rng = np.random.default_rng(random_seed(seed))
    square = min((_cyclic_square(workers, size, rng) for _ in range(20)), key=lambda rows: float(np.abs(rows).max()))
    assignment = square[:, _owners(workers, count("partitions", partitions))]
    return GradientCode(assignment, LeastSquaresDecoder(assignment))


def _cyclic_square(workers: int, tolerance: int, rng: np.random.Generator) -> FloatArray:
    if tolerance == 0:
        return np.eye(workers)
    space = rng.standard_normal((tolerance, workers))
    space[:, -1] = -space[:, :-1].sum(axis=1)
    rows = np.zeros((workers, workers))
    for i in range(workers):
        support = (i + 1 + np.arange(tolerance)) % workers
        rows[i, i] = 1.0
        rows[i, support] = np.linalg.solve(space[:, support], -space[:, i])
    return rows


def _owners(workers: int, partitions: int) -> IntArray:
    """Worker of every partition when runs of neighbours are dealt out evenly."""
    return np.arange(partitions, dtype=np.int64) * workers // partitions


def _one_each(workers: int, partitions: int) -> FloatArray:
    held: FloatArray = (np.arange(workers)[:, None] == _owners(workers, partitions)[None, :]).astype(np.float64)
    return held


def _inverse_arrival(p: FloatArray) -> FloatArray:
    """1 / (1 - p), and 0 for workers that never arrive."""
    return np.where(p < 1.0, 1.0 / np.where(p < 1.0, 1.0 - p, 1.0), 0.0)


def _require_arrivals(p: FloatArray, needed: npt.NDArray[np.bool_]) -> None:
    if np.any(needed & (p == 1.0)):
        worker = int(np.argmax(needed & (p == 1.0)))
        raise ValueError(
            f"Worker {worker} never arrives (p = 1) but is the only one with its partitions. Use a code with "
            "replication, or importance=False to ignore stragglers."
        )


def _check_replication(replication: int, available: int, what: str) -> None:
    if count("replication", replication) > available:
        raise ValueError(f"replication must be at most the number of {what} ({available}); got {replication}.")
