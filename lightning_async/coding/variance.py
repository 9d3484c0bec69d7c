"""Relative variance of a quantiser and the utility of a worker that uses it.

Worker i, straggling with probability p_i and sending z_i bits a coordinate, contributes
``u_i = (1 - p_i) / (p_i + q(z_i))`` to the utility U; the smallest guaranteed error over all unbiased codes is
``C**2 K**2 / U`` (Song and Choi 2026, arXiv 2605.15890).
"""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from lightning_async.arguments import array, choice, count
from lightning_async.coding.validation import (
    MAX_BITS,
    FloatArray,
    as_bits,
    as_crest_factors,
    as_probabilities,
)

QuantizerName: TypeAlias = Literal["dither", "rounding", "qsgd", "norm", "none"]


def relative_variance(bits: npt.ArrayLike, kappa: npt.ArrayLike, quantizer: QuantizerName) -> FloatArray:
    """Bound on E||Q(y) - y||^2 / ||y||^2 of a quantiser at a number of bits.

    Args:
        bits: Bits a coordinate, z, from 0 to 16; 0 means that the worker is not used. They need not be whole.
        kappa: Squared crest factor of the message, per bucket and averaged; for ``"norm"`` the message's length.
        quantizer: ``"dither"`` (kappa / (3 (2^z - 1)^2), exact), ``"rounding"`` (kappa / (2^z - 1)^2),
            ``"qsgd"`` and ``"norm"`` (kappa / (4 (2^(z-1) - 1)^2)), ``"none"`` (0).

    Returns:
        Relative variances, of the common shape of ``bits`` and ``kappa``; infinite where too few bits are given.

    Raises:
        TypeError: If an argument is of the wrong kind.
        ValueError: For an unknown quantizer, bits or kappa out of range, or shapes that cannot be broadcast.

    Example:
        >>> float(relative_variance(2, 9.0, "rounding"))
        1.0
    """
    choice("quantizer", quantizer, get_args(QuantizerName))
    given, factors = array("bits", bits), array("kappa", kappa)
    if not np.all((given >= 0.0) & (given <= MAX_BITS)):
        raise ValueError(f"bits must be from 0 (not used) to {MAX_BITS}; got {given.tolist()}.")
    if not np.all((factors >= 0.0) & (factors < np.inf)):
        raise ValueError(f"kappa must be finite and not negative; got {factors.tolist()}.")
    z, crest = np.broadcast_arrays(given, factors)
    if quantizer == "none":
        return np.where(z >= 1, 0.0, np.inf)
    if quantizer in ("dither", "rounding"):
        steps, share = np.exp2(z) - 1.0, 3.0 if quantizer == "dither" else 1.0
    else:
        steps, share = np.exp2(np.maximum(z, 1.0) - 1.0) - 1.0, 4.0
    usable = steps > 0
    result: FloatArray = np.where(usable, crest / (share * np.where(usable, steps, 1.0) ** 2), np.inf)
    return result


def worker_utility(p: npt.ArrayLike, q: npt.ArrayLike) -> FloatArray:
    """Utilities u_i = (1 - p_i) / (p_i + q_i): 0 for a worker that never arrives, infinite for a perfect one."""
    straggling, variance = np.broadcast_arrays(np.asarray(p, dtype=np.float64), np.asarray(q, dtype=np.float64))
    cost = straggling + variance
    perfect = cost == 0
    return np.where(perfect, np.inf, (1.0 - straggling) / np.where(perfect, 1.0, cost))


def utility_table(p: FloatArray, kappa: FloatArray, quantizer: QuantizerName, zmax: int) -> FloatArray:
    """Utilities of every worker at 0..zmax bits, shape (workers, zmax + 1)."""
    q = relative_variance(np.arange(zmax + 1)[None, :], kappa[:, None], quantizer)
    return worker_utility(p[:, None], q)


def utility_slopes(p: FloatArray, kappa: FloatArray, quantizer: QuantizerName, zmax: int) -> FloatArray:
    """Derivatives of the utilities by (real-valued) bits, on a grid of 1/64 bit over [0, zmax], one row a worker."""
    grid = np.linspace(0.0, zmax, 64 * zmax + 1)
    values = worker_utility(p[:, None], relative_variance(grid[None, :], kappa[:, None], quantizer))
    slopes: FloatArray = np.gradient(values, grid, axis=1)
    return slopes


def utility(z: npt.ArrayLike, p: npt.ArrayLike, *, kappa: npt.ArrayLike, quantizer: QuantizerName = "dither") -> float:
    """Total utility U = sum_i u_i of a bit allocation; the error bound of the best code is C^2 K^2 / U.

    Args:
        z: Bits a coordinate of every worker, 0 = not used.
        p: Straggling probabilities.
        kappa: Squared crest factor of the messages, one number or one per worker.
        quantizer: Name of the quantiser, see `relative_variance`.

    Raises:
        TypeError: For bits that are not whole numbers, and for what is not a number at all.
        ValueError: For probabilities outside [0, 1], bits that are not from 0 to 16, or wrong shapes.

    Example:
        >>> round(utility([4, 4, 0, 0], [0.2] * 4, kappa=9.0, quantizer="rounding"), 6)
        6.666667
    """
    straggling = as_probabilities(p)
    bits = as_bits(z, straggling.size)
    q = relative_variance(bits, as_crest_factors(kappa, straggling.size), quantizer)
    return float(worker_utility(straggling, q).sum())


def check_zmax(zmax: int) -> int:
    """Check the largest number of bits a worker may use.

    Raises:
        TypeError: If it is not an integer.
        ValueError: If it is not from 1 to 16.
    """
    return count("zmax", zmax, at_most=MAX_BITS, note=", the widest index that is packed")
