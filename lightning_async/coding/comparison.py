"""Expected relative errors of gradient codes by formula: which code is ahead before anything is trained.

The optimal code wins by most under tight budgets and unequal workers. It does not win where workers are equal and bits
ample: there it is uncoded importance weighting, and codes with twice its load (EHD, SGC) have smaller errors. Nor where
gradients are nearly aligned and bits ample: there the biased mean of the survivors is better than any unbiased code.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy.typing as npt

from lightning_async.arguments import count, reals
from lightning_async.coding.allocation import allocate_bits
from lightning_async.coding.baselines import erasure_head, uncoded
from lightning_async.coding.codes import GradientCode, optimal_code, osgc
from lightning_async.coding.error import code_error, correlated_gram, is_enumerable, sampled_error
from lightning_async.coding.set_aware import SetAwareDecoder
from lightning_async.coding.validation import FloatArray, as_correlation, as_probabilities
from lightning_async.coding.variance import QuantizerName, relative_variance


@dataclass(frozen=True)
class RelativeErrors:
    """E||ghat - g||^2 / ||g||^2 of one scheme, one value a correlation.

    Attributes:
        scheme: Name of the scheme.
        errors: One relative error per correlation of the partition gradients.
        load: Workers that compute a partition, on average.
        standard_errors: Of the errors, where they are estimates; empty where they are exact.
    """

    scheme: str
    errors: tuple[float, ...]
    load: float
    standard_errors: tuple[float, ...] = ()


def compare_codes(
    p: npt.ArrayLike,
    budget: int,
    *,
    partitions: int,
    kappa: float,
    correlations: Sequence[float] = (0.0, 0.5, 1.0),
    quantizer: QuantizerName = "dither",
) -> list[RelativeErrors]:
    """Expected relative errors of the proposed codes and baselines at one bit budget.

    Baselines give every worker the same bits. The set-aware decoder is told the true correlation. Where weights depend
    on who arrived and more than 14 workers may or may not arrive, errors are estimated from sampled sets of workers.

    Args:
        p: Straggling probabilities, of at least two workers.
        budget: Bits a coordinate over all workers.
        partitions: Number of partitions.
        kappa: Squared crest factor of the messages.
        correlations: Correlations of two partition gradients.
        quantizer: See `relative_variance`.

    Raises:
        TypeError: If an argument is of the wrong kind.
        ValueError: If an argument is out of range, or one of the codes cannot be made.

    Example:
        >>> import numpy as np
        >>> rows = compare_codes(np.linspace(0.05, 0.8, 10), 10, partitions=10, kappa=9.36)
        >>> rows[0].scheme, [round(error, 2) for error in rows[0].errors]
        ('uncoded, importance weights', [8.02, 1.46, 0.8])
    """
    straggling = as_probabilities(p)
    if straggling.size < 2:
        raise ValueError("codes are compared for at least 2 workers: the groups of EHD have two; got 1")
    count("partitions", partitions)
    if not (given := reals("correlations", correlations)):
        raise ValueError("correlations must hold at least one")
    for rho in given:
        # Without this margin the gradients add up to zero, and no error is relative to that.
        if as_correlation(rho, partitions) * (partitions - 1) <= -1.0 + 1e-9:
            raise ValueError(
                f"correlations must be above {-1.0 / (partitions - 1):.4g}, where gradients cancel; got {rho}"
            )
    equal = allocate_bits(straggling, budget, kappa=kappa, quantizer=quantizer, method="equal")
    best = allocate_bits(straggling, budget, kappa=kappa, quantizer=quantizer)
    q_equal, q_best = (relative_variance(z, kappa, quantizer) for z in (equal, best))
    proposed = optimal_code(best, straggling, partitions=partitions, kappa=kappa, quantizer=quantizer)
    spread = optimal_code(best, straggling, partitions=partitions, kappa=kappa, quantizer=quantizer, fill="spread")
    schemes: list[tuple[str, GradientCode, FloatArray]] = [
        ("uncoded, importance weights", uncoded(straggling, partitions=partitions), q_equal),
        ("uncoded, mean of survivors", uncoded(straggling, partitions=partitions, importance=False), q_equal),
        ("EHD d=2 rescaled", erasure_head(straggling, partitions=partitions), q_equal),
        ("OSGC", osgc(straggling, partitions=partitions), q_equal),
        ("proposed (interval)", proposed, q_best),
        ("proposed (spread)", spread, q_best),
    ]
    rows = []
    for name, code, q in schemes:
        rows.append(_row(name, [code] * len(correlations), straggling, q, correlations))
    for name, unbiased in (("set-aware unbiased", True), ("LMMSE", False)):
        codes = [
            GradientCode(proposed.assignment, SetAwareDecoder(proposed, straggling, q_best, rho=rho, unbiased=unbiased))
            for rho in correlations
        ]
        rows.append(_row(f"proposed + {name}, true rho", codes, straggling, q_best, correlations))
    return rows


def _row(
    name: str, codes: Sequence[GradientCode], p: FloatArray, q: FloatArray, correlations: Sequence[float]
) -> RelativeErrors:
    """One scheme, with a code for each correlation."""
    grams = [correlated_gram(codes[0].assignment.shape[1], rho) for rho in correlations]
    cases = [(code, gram, float(gram.sum())) for code, gram in zip(codes, grams, strict=True)]
    if is_enumerable(codes[0], p, q):
        exact = tuple(code_error(code, p, q, gram) / square for code, gram, square in cases)
        return RelativeErrors(name, exact, codes[0].load)
    found = [(*sampled_error(code, p, q, gram), square) for code, gram, square in cases]
    return RelativeErrors(
        name,
        tuple(mean / square for mean, _, square in found),
        codes[0].load,
        tuple(deviation / square for _, deviation, square in found),
    )
