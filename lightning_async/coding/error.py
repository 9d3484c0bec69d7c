"""Exact decoding errors by formula, for any code, straggling, quantiser variance and Gram matrix of the gradients."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from lightning_async.arguments import array, count, real
from lightning_async.coding.codes import GradientCode, effective_code
from lightning_async.coding.decoders import FixedDecoder
from lightning_async.coding.validation import (
    BoolArray,
    FloatArray,
    as_correlation,
    as_gram,
    as_probabilities,
    as_variances,
)

# Sets of arrived workers are enumerated up to this many uncertain workers.
MOST_ENUMERATED = 14
_BLOCK = 4096


def correlated_gram(partitions: int, rho: float, *, scale: float = 1.0) -> FloatArray:
    """Gram matrix C^2 ((1 - rho) I + rho 11^T): gradients of norm C, each two with correlation rho.

    Args:
        partitions: Number of gradients, K.
        rho: Their correlation, in [-1 / (K - 1), 1].
        scale: Their norm, C.

    Raises:
        TypeError: If an argument is of the wrong kind.
        ValueError: If an argument is out of range.

    Example:
        >>> correlated_gram(2, 0.5).tolist()
        [[1.0, 0.5], [0.5, 1.0]]
    """
    rho = as_correlation(rho, count("partitions", partitions))
    return real("scale", scale, at_least=0.0) ** 2 * (
        (1.0 - rho) * np.eye(partitions) + rho * np.ones((partitions, partitions))
    )


def expected_error(B: npt.ArrayLike, p: npt.ArrayLike, q: npt.ArrayLike, gram: npt.ArrayLike) -> float:
    """Exact E||ghat - g||^2 of a code with fixed weights.

    Sum over workers of c_i ||v_i||^2 with c_i = (p_i + q_i) / (1 - p_i) and v_i = sum_j B_ij g_j, plus the squared bias
    when the columns of B do not sum to 1.

    Args:
        B: Effective code, (workers, partitions), B_ij = (1 - p_i) w_i A_ij.
        p: Straggling probabilities.
        q: Relative variances of the quantiser at every worker; infinite where it sends nothing.
        gram: Inner products of the partition gradients, (partitions, partitions).

    Raises:
        TypeError: If an argument is of the wrong kind.
        ValueError: If a worker with a row that is not zero never arrives or sends no bits, shapes do not fit, or values
            are out of range: ``gram`` must be symmetric without negative eigenvalues, ``B`` finite.

    Example:
        >>> expected_error([[1.0, 0.0], [0.0, 1.0]], [0.5, 0.5], [0.0, 0.0], [[1.0, 0.0], [0.0, 1.0]])
        2.0
    """
    code = array("B", B)
    straggling = as_probabilities(p)
    if code.ndim != 2 or len(code) != straggling.size:
        raise ValueError(f"B must be (workers, partitions) with {straggling.size} workers; got shape {code.shape}.")
    if not np.all(np.isfinite(code)):
        raise ValueError("B holds a value that is not finite.")
    products = as_gram(gram, code.shape[1])
    variance = as_variances(q, straggling.size)
    used = np.any(code != 0, axis=1)
    silent = used & ((straggling == 1.0) | ~np.isfinite(variance))
    if silent.any():
        raise ValueError(
            f"Worker {int(np.argmax(silent))} has a load in B but never delivers (p = 1, or no bits). "
            "Give it a zero row."
        )
    rows, arrival = code[used], 1.0 - straggling[used]
    cost = (straggling[used] + variance[used]) / arrival
    missing = 1.0 - code.sum(axis=0)
    return float(cost @ _squares(rows, products) + missing @ products @ missing)


def code_error(code: GradientCode, p: npt.ArrayLike, q: npt.ArrayLike, gram: npt.ArrayLike) -> float:
    """Exact E||ghat - g||^2 of any code with its decoder.

    By formula for fixed weights; for weights that depend on who arrived, by summing over all sets of arrived workers.

    Args:
        code: The code and its decoder.
        p: Straggling probabilities.
        q: Relative variances of the quantiser; a worker with an infinite one sends nothing.
        gram: Inner products of the partition gradients.

    Raises:
        TypeError: If an argument is of the wrong kind.
        ValueError: If a decoder that depends on the set has more than 14 workers that may or may not arrive, or as
            `expected_error`.

    Example:
        >>> from lightning_async.coding.baselines import erasure_head
        >>> round(code_error(erasure_head([0.5, 0.5], partitions=2), [0.5, 0.5], 0.0, correlated_gram(2, 1.0)), 6)
        1.333333
    """
    straggling = as_probabilities(p, len(code.assignment))
    variance = as_variances(q, straggling.size)
    straggling = np.where(np.isfinite(variance), straggling, 1.0)
    if isinstance(code.decoder, FixedDecoder):
        effective = effective_code(code.assignment, code.decoder.fixed, straggling)
        return expected_error(effective, straggling, variance, gram)
    products = as_gram(gram, code.assignment.shape[1])
    messages = _squares(code.assignment, products)
    noise = np.where(np.isfinite(variance), variance, 0.0) * messages
    total = 0.0
    for arrived, probability in arrival_sets(straggling, code.used):
        weights = code.decoder.weights(arrived)
        missing = weights @ code.assignment - 1.0
        total += float(probability @ (_squares(missing, products) + weights**2 @ noise))
    return total


def arrival_sets(p: FloatArray, used: BoolArray) -> Iterator[tuple[BoolArray, FloatArray]]:
    """All sets of arrived workers with their probabilities, in blocks; workers that are not used never arrive.

    Raises:
        ValueError: If more than 14 workers are uncertain.
    """
    uncertain = np.flatnonzero(used & (p > 0.0) & (p < 1.0))
    if uncertain.size > MOST_ENUMERATED:
        raise ValueError(
            f"{uncertain.size} workers may or may not arrive; sets are enumerated for at most {MOST_ENUMERATED}. Use a "
            "decoder with fixed weights, or simulate."
        )
    total = 2**uncertain.size
    for start in range(0, total, _BLOCK):
        numbers = np.arange(start, min(start + _BLOCK, total))
        present = (numbers[:, None] >> np.arange(uncertain.size)[None, :]) & 1 == 1
        arrived = np.tile(used & (p == 0.0), (len(numbers), 1))
        arrived[:, uncertain] = present
        yield arrived, np.prod(np.where(present, 1.0 - p[uncertain], p[uncertain]), axis=1)


def _squares(rows: FloatArray, products: FloatArray) -> FloatArray:
    """Squared norms of the combinations that the rows stand for."""
    result: FloatArray = np.einsum("ij,jl,il->i", rows, products, rows, optimize=True)
    return result
