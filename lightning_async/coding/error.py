"""Decoding errors by formula, for any code, straggling, quantiser variance and Gram matrix of the gradients."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt

from lightning_async.arguments import array, count, random_seed, real
from lightning_async.coding.codes import GradientCode, effective_code
from lightning_async.coding.decoders import FixedDecoder
from lightning_async.coding.validation import (
    BoolArray,
    FloatArray,
    IntArray,
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
    straggling, variance = _with_silence(code, p, q)
    if isinstance(code.decoder, FixedDecoder):
        effective = effective_code(code.assignment, code.decoder.fixed, straggling)
        return expected_error(effective, straggling, variance, gram)
    errors = _errors_of_sets(code, variance, gram)
    return sum(float(probability @ errors(arrived)) for arrived, probability in arrival_sets(straggling, code.used))


def sampled_error(
    code: GradientCode,
    p: npt.ArrayLike,
    q: npt.ArrayLike,
    gram: npt.ArrayLike,
    *,
    sets: int = 4096,
    seed: int = 0,
) -> tuple[float, float]:
    """`code_error` from sampled sets of arrived workers, for any number of workers; and its standard error.

    The quantisers' part is exact for each set.

    Args:
        code: The code and its decoder.
        p: Straggling probabilities.
        q: Relative variances of the quantiser; a worker with an infinite one sends nothing.
        gram: Inner products of the partition gradients.
        sets: Number of sets, at least 2.
        seed: Of the sets.

    Raises:
        TypeError: If an argument is of the wrong kind.
        ValueError: As `expected_error`.

    Example:
        >>> from lightning_async.coding.baselines import erasure_head
        >>> mean, deviation = sampled_error(erasure_head([0.5] * 30, partitions=30), [0.5] * 30, 0.0, np.eye(30))
        >>> abs(mean - 10.0) < 4 * deviation
        True
    """
    straggling, variance = _with_silence(code, p, q)
    errors = _errors_of_sets(code, variance, gram)
    # Set-aware decoders sample sets from the stream of their own seed; judged by the same sets they would look better.
    rng = np.random.default_rng((1, random_seed(seed)))
    arrived = (rng.random((count("sets", sets, at_least=2), straggling.size)) >= straggling) & code.used
    sample = np.concatenate([errors(arrived[start : start + 512]) for start in range(0, sets, 512)])
    return float(sample.mean()), float(sample.std(ddof=1)) / sets**0.5


def _with_silence(code: GradientCode, p: npt.ArrayLike, q: npt.ArrayLike) -> tuple[FloatArray, FloatArray]:
    """Straggling probabilities, 1 for workers that send nothing, and relative variances."""
    straggling = as_probabilities(p, len(code.assignment))
    variance = as_variances(q, straggling.size)
    return np.where(np.isfinite(variance), straggling, 1.0), variance


def _errors_of_sets(code: GradientCode, variance: FloatArray, gram: npt.ArrayLike) -> Callable[[BoolArray], FloatArray]:
    """The rule that gives the mean squared error, over the quantisers, for sets of arrived workers."""
    products = as_gram(gram, code.assignment.shape[1])
    noise = np.where(np.isfinite(variance), variance, 0.0) * _squares(code.assignment, products)

    def errors(arrived: BoolArray) -> FloatArray:
        weights = code.decoder.weights(arrived)
        missing = weights @ code.assignment - 1.0
        result: FloatArray = _squares(missing, products) + weights**2 @ noise
        return result

    return errors


def is_enumerable(code: GradientCode, p: FloatArray, q: FloatArray) -> bool:
    """Whether `code_error` can be had: by fixed weights, or by few enough workers that may or may not arrive."""
    if isinstance(code.decoder, FixedDecoder):
        return True
    straggling, _ = _with_silence(code, p, q)
    return _uncertain(straggling, code.used).size <= MOST_ENUMERATED


def arrival_sets(p: FloatArray, used: BoolArray) -> Iterator[tuple[BoolArray, FloatArray]]:
    """All sets of arrived workers with their probabilities, in blocks; workers that are not used never arrive.

    Raises:
        ValueError: If more than 14 workers are uncertain.
    """
    uncertain = _uncertain(p, used)
    if uncertain.size > MOST_ENUMERATED:
        raise ValueError(
            f"{uncertain.size} workers may or may not arrive; sets are enumerated for at most {MOST_ENUMERATED}. Use a "
            "decoder with fixed weights, or `sampled_error`."
        )
    total = 2**uncertain.size
    for start in range(0, total, _BLOCK):
        numbers = np.arange(start, min(start + _BLOCK, total))
        present = (numbers[:, None] >> np.arange(uncertain.size)[None, :]) & 1 == 1
        arrived = np.tile(used & (p == 0.0), (len(numbers), 1))
        arrived[:, uncertain] = present
        yield arrived, np.prod(np.where(present, 1.0 - p[uncertain], p[uncertain]), axis=1)


def _uncertain(p: FloatArray, used: BoolArray) -> IntArray:
    return np.flatnonzero(used & (p > 0.0) & (p < 1.0))


def _squares(rows: FloatArray, products: FloatArray) -> FloatArray:
    """Squared norms of the combinations that the rows stand for."""
    result: FloatArray = np.einsum("ij,jl,il->i", rows, products, rows, optimize=True)
    return result
