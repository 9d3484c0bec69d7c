"""Expected relative errors of gradient codes by formula: which code is ahead before anything is trained.

The optimal code wins by most under tight budgets and unequal workers. It does not win where workers are equal and bits
ample: there it is uncoded importance weighting, and codes with twice its load (EHD, SGC) have smaller errors. Nor where
gradients are nearly aligned and bits ample: there the biased mean of the survivors is better than any unbiased code.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy.typing as npt

from lightning_async.coding.allocation import allocate_bits
from lightning_async.coding.baselines import erasure_head, uncoded
from lightning_async.coding.codes import GradientCode, optimal_code, osgc
from lightning_async.coding.error import code_error, correlated_gram
from lightning_async.coding.set_aware import SetAwareDecoder
from lightning_async.coding.validation import FloatArray, as_probabilities
from lightning_async.coding.variance import QuantizerName, relative_variance


@dataclass(frozen=True)
class RelativeErrors:
    """E||ghat - g||^2 / ||g||^2 of one scheme, one value a correlation.

    Attributes:
        scheme: Name of the scheme.
        errors: One relative error per correlation of the partition gradients.
        load: Workers that compute a partition, on average.
    """

    scheme: str
    errors: tuple[float, ...]
    load: float


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

    Baselines give every worker the same bits. The set-aware decoder is told the true correlation.

    Args:
        p: Straggling probabilities.
        budget: Bits a coordinate over all workers.
        partitions: Number of partitions.
        kappa: Squared crest factor of the messages.
        correlations: Correlations of two partition gradients.
        quantizer: See `relative_variance`.

    Example:
        >>> import numpy as np
        >>> rows = compare_codes(np.linspace(0.05, 0.8, 10), 10, partitions=10, kappa=9.36)
        >>> rows[0].scheme, [round(error, 2) for error in rows[0].errors]
        ('uncoded, importance weights', [8.02, 1.46, 0.8])
    """
    straggling = as_probabilities(p)
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
        errors = tuple(_relative(code, straggling, q, rho) for rho in correlations)
        rows.append(RelativeErrors(name, errors, code.load))
    for name, unbiased in (("set-aware unbiased", True), ("LMMSE", False)):
        errors = tuple(_set_aware(proposed, straggling, q_best, rho, unbiased=unbiased) for rho in correlations)
        rows.append(RelativeErrors(f"proposed + {name}, true rho", errors, proposed.load))
    return rows


def _relative(code: GradientCode, p: FloatArray, q: FloatArray, rho: float) -> float:
    gram = correlated_gram(code.assignment.shape[1], rho)
    return code_error(code, p, q, gram) / float(gram.sum())


def _set_aware(code: GradientCode, p: FloatArray, q: FloatArray, rho: float, *, unbiased: bool) -> float:
    decoder = SetAwareDecoder(code, p, q, rho=rho, unbiased=unbiased)
    return _relative(GradientCode(code.assignment, decoder), p, q, rho)
