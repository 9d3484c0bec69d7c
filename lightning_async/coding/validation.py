"""What every function of the coding layer demands of vectors over workers and matrices over partitions."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from lightning_async.arguments import array

FloatArray: TypeAlias = npt.NDArray[np.float64]
IntArray: TypeAlias = npt.NDArray[np.int64]
BoolArray: TypeAlias = npt.NDArray[np.bool_]

MAX_BITS = 16


def as_probabilities(p: npt.ArrayLike) -> FloatArray:
    """Check straggling probabilities and return them as a float vector, one entry a worker.

    Raises:
        TypeError: If they are not numbers.
        ValueError: If they are not a vector, or one is not in [0, 1].
    """
    given = array("p", p)
    if given.ndim != 1 or given.size == 0:
        raise ValueError(f"p needs one straggling probability per worker, a non-empty vector; got shape {given.shape}.")
    wrong = np.flatnonzero(~((given >= 0.0) & (given <= 1.0)))
    if wrong.size:
        raise ValueError(
            f"p[{wrong[0]}] = {given[wrong[0]]} is not a straggling probability. Give every worker a value in [0, 1]: "
            "0 always arrives, 1 never does."
        )
    return given


def as_crest_factors(kappa: npt.ArrayLike, workers: int) -> FloatArray:
    """Check crest factors (one for all workers, or one each) and return one per worker.

    Raises:
        TypeError: If they are not numbers.
        ValueError: If there are not that many, or one is negative or not finite.
    """
    given = array("kappa", kappa)
    if given.shape not in ((), (workers,)):
        raise ValueError(f"kappa must be one number or one per worker ({workers}); got shape {given.shape}.")
    if not np.all(np.isfinite(given) & (given >= 0.0)):
        raise ValueError(
            f"kappa must be finite and not negative; got {given.tolist()}. Measure it with Quantizer.kappa(vector)."
        )
    return np.broadcast_to(given, (workers,)).copy()


def as_bits(z: npt.ArrayLike, workers: int) -> IntArray:
    """Check bits per coordinate, one whole number from 0 to 16 a worker.

    Raises:
        TypeError: If they are not whole numbers.
        ValueError: If there are not that many, or one is not from 0 to 16.
    """
    given = np.asarray(z)
    if given.shape != (workers,):
        raise ValueError(f"z needs one number of bits per worker ({workers}); got shape {given.shape}.")
    whole = np.issubdtype(given.dtype, np.integer)
    if not whole or given.min() < 0 or given.max() > MAX_BITS:
        error = ValueError if whole else TypeError
        raise error(f"z must hold whole numbers of bits from 0 (not used) to {MAX_BITS}; got {given.tolist()}.")
    return given.astype(np.int64)


def as_gram(gram: npt.ArrayLike, partitions: int) -> FloatArray:
    """Check a Gram matrix of partition gradients, entry (j, l) = <g_j, g_l>.

    Raises:
        TypeError: If it does not hold numbers.
        ValueError: If it does not have one row and one column per partition.
    """
    given = array("gram", gram)
    if given.shape != (partitions, partitions):
        raise ValueError(f"gram must be ({partitions}, {partitions}), one row per partition; got shape {given.shape}.")
    return given
