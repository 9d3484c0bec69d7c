"""What every function of the coding layer demands of its arguments, said once."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

FloatArray: TypeAlias = npt.NDArray[np.float64]
IntArray: TypeAlias = npt.NDArray[np.int64]
BoolArray: TypeAlias = npt.NDArray[np.bool_]

MAX_BITS = 16


def as_probabilities(p: npt.ArrayLike) -> FloatArray:
    """Check straggling probabilities and return them as a float vector, one entry a worker."""
    array = np.asarray(p, dtype=np.float64)
    if array.ndim != 1 or array.size == 0:
        raise ValueError(f"p needs one straggling probability per worker, a non-empty vector; got shape {array.shape}.")
    wrong = np.flatnonzero(~((array >= 0.0) & (array <= 1.0)))
    if wrong.size:
        raise ValueError(
            f"p[{wrong[0]}] = {array[wrong[0]]} is not a straggling probability. Give every worker a value in [0, 1]: "
            "0 always arrives, 1 never does."
        )
    return array


def as_crest_factors(kappa: npt.ArrayLike, workers: int) -> FloatArray:
    """Check crest factors (one for all workers, or one each) and return one per worker."""
    array = np.asarray(kappa, dtype=np.float64)
    if array.shape not in ((), (workers,)):
        raise ValueError(f"kappa must be one number or one per worker ({workers}); got shape {array.shape}.")
    if not np.all(np.isfinite(array) & (array >= 0.0)):
        raise ValueError(
            f"kappa must be finite and not negative; got {array.tolist()}. Measure it with Quantizer.kappa(vector)."
        )
    return np.broadcast_to(array, (workers,)).copy()


def as_bits(z: npt.ArrayLike, workers: int) -> IntArray:
    """Check bits per coordinate, one whole number from 0 to 16 a worker."""
    array = np.asarray(z)
    if array.shape != (workers,):
        raise ValueError(f"z needs one number of bits per worker ({workers}); got shape {array.shape}.")
    if not np.issubdtype(array.dtype, np.integer) or array.min() < 0 or array.max() > MAX_BITS:
        raise ValueError(f"z must hold whole numbers of bits from 0 (not used) to {MAX_BITS}; got {array.tolist()}.")
    return array.astype(np.int64)


def as_count(value: int, name: str, *, least: int = 1) -> int:
    """Check a whole number with a lower limit."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < least:
        raise ValueError(f"{name} must be a whole number of at least {least}; got {value!r}.")
    return int(value)


def as_gram(gram: npt.ArrayLike, partitions: int) -> FloatArray:
    """Check a Gram matrix of partition gradients, entry (j, l) = <g_j, g_l>."""
    array = np.asarray(gram, dtype=np.float64)
    if array.shape != (partitions, partitions):
        raise ValueError(f"gram must be ({partitions}, {partitions}), one row per partition; got shape {array.shape}.")
    return array
