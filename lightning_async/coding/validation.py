"""What every function of the coding layer demands of vectors over workers and matrices over partitions."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from lightning_async.arguments import array, real

FloatArray: TypeAlias = npt.NDArray[np.float64]
IntArray: TypeAlias = npt.NDArray[np.int64]
BoolArray: TypeAlias = npt.NDArray[np.bool_]

MAX_BITS = 16

# What products in single precision may miss of symmetry and of being positive, relative to the trace.
_GRAM_ROUNDING = 1e-6


def as_probabilities(p: npt.ArrayLike, workers: int | None = None) -> FloatArray:
    """Check straggling probabilities and return them as a float vector, one entry a worker.

    Raises:
        TypeError: If they are not numbers.
        ValueError: If they are not a vector, of that many if so many are expected, or one is not in [0, 1].
    """
    given = array("p", p)
    if workers is not None and given.shape != (workers,):
        raise ValueError(f"p needs one straggling probability per worker ({workers}); got shape {given.shape}.")
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


def as_variances(q: npt.ArrayLike, workers: int) -> FloatArray:
    """Check relative variances (one for all workers, or one each), infinite where nothing is sent; one per worker.

    Raises:
        TypeError: If they are not numbers.
        ValueError: If there are not that many, or one is negative or NaN.
    """
    given = array("q", q)
    if given.shape not in ((), (workers,)):
        raise ValueError(f"q must be one relative variance or one per worker ({workers}); got shape {given.shape}.")
    if not np.all(given >= 0.0):
        raise ValueError(
            f"q must hold relative variances of at least 0, infinite for a worker that sends nothing; got "
            f"{given.tolist()}."
        )
    return np.broadcast_to(given, (workers,))


def as_arrived(arrived: npt.ArrayLike, workers: int) -> BoolArray:
    """Check sets of arrived workers: booleans, the last dimension over all workers.

    Raises:
        TypeError: If they are not booleans.
        ValueError: If the last dimension is of another size.
    """
    given = np.asarray(arrived)
    if given.dtype != np.bool_:
        raise TypeError(
            f"arrived must be a boolean array, True for a worker that arrived, and not indices; got {given.dtype}."
        )
    if given.shape[-1:] != (workers,):
        raise ValueError(f"arrived must be (..., {workers}), one entry per worker; got shape {given.shape}.")
    return given


def as_correlation(rho: float, partitions: int) -> float:
    """Check a correlation that each two of so many gradients can have, up to rounding.

    Raises:
        TypeError: If it is not a number.
        ValueError: If it is not in [-1 / (K - 1), 1].
    """
    lowest = -1.0 / max(partitions - 1, 1)
    return real("rho", rho, at_least=lowest - 1e-12, at_most=1.0, note=f" for {partitions} partitions")


def as_gram(gram: npt.ArrayLike, partitions: int) -> FloatArray:
    """Check a Gram matrix of partition gradients, entry (j, l) = <g_j, g_l>.

    Raises:
        TypeError: If it does not hold numbers.
        ValueError: If it does not have one row and one column per partition, or is not a Gram matrix: not finite, not
            symmetric, or with a negative eigenvalue.
    """
    given = array("gram", gram)
    if given.shape != (partitions, partitions):
        raise ValueError(f"gram must be ({partitions}, {partitions}), one row per partition; got shape {given.shape}.")
    if not np.all(np.isfinite(given)):
        raise ValueError("gram holds a value that is not finite.")
    slack = _GRAM_ROUNDING * abs(float(np.trace(given)))
    if not np.all(np.abs(given - given.T) <= slack):
        raise ValueError("gram must be symmetric: entry (j, l) is the inner product of gradients j and l.")
    lowest = float(np.linalg.eigvalsh(given)[0])
    if not lowest >= -slack:
        raise ValueError(
            f"gram has the eigenvalue {lowest:.4g}, but inner products of gradients have none below 0. Compute it as "
            "gradients @ gradients.T."
        )
    return given
