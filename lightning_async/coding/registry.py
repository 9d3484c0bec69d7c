"""Codes and quantisers by name, for configuration."""

from __future__ import annotations

from typing import get_args

import numpy.typing as npt

from lightning_async.coding.baselines import bgc, cyclic, erasure_head, fractional_repetition, sgc, uncoded
from lightning_async.coding.codes import Fill, GradientCode, optimal_code, osgc
from lightning_async.coding.quantizers import NoQuantizer, Quantizer, StochasticRounding, SubtractiveDither
from lightning_async.coding.sign_magnitude import QSGD, NormScaled
from lightning_async.coding.validation import as_probabilities
from lightning_async.coding.variance import QuantizerName

QUANTIZERS: dict[QuantizerName, type[Quantizer]] = {
    "dither": SubtractiveDither,
    "rounding": StochasticRounding,
    "qsgd": QSGD,
    "norm": NormScaled,
    "none": NoQuantizer,
}

CODE_NAMES = (*get_args(Fill), "osgc", "uncoded", "survivors", "sgc", "bgc", "ehd", "frc", "cyclic")


def make_quantizer(name: QuantizerName, *, bucket: int = 512) -> Quantizer:
    """A quantiser by name; ``bucket`` is for those that have buckets.

    Raises:
        ValueError: For an unknown name.

    Example:
        >>> make_quantizer("qsgd", bucket=64).min_bits
        2
    """
    if name not in QUANTIZERS:
        raise ValueError(f"quantizer {name!r} is not known; choose one of {', '.join(QUANTIZERS)}.")
    if name == "dither":
        return SubtractiveDither(bucket)
    if name == "rounding":
        return StochasticRounding(bucket)
    if name == "qsgd":
        return QSGD(bucket)
    return QUANTIZERS[name]()


def make_code(
    name: str,
    z: npt.ArrayLike,
    p: npt.ArrayLike,
    *,
    partitions: int,
    kappa: npt.ArrayLike,
    quantizer: QuantizerName = "dither",
    replication: int = 2,
    rescale: bool = True,
    cap: float | None = None,
    rotations: int = 4,
    seed: int = 0,
) -> GradientCode:
    """A code by name.

    Args:
        name: ``"interval"``, ``"alias"``, ``"spread"`` (the optimal codes), ``"osgc"``, ``"uncoded"`` (importance
            weights), ``"survivors"`` (uncoded, stragglers ignored), ``"sgc"``, ``"bgc"``, ``"ehd"``, ``"frc"`` or
            ``"cyclic"``.
        z: Bits a coordinate of every worker; only the optimal codes look at them.
        p: Straggling probabilities.
        partitions: Number of partitions.
        kappa: Squared crest factor of the messages, for the optimal codes.
        quantizer: Quantiser, for the optimal codes.
        replication: Workers for a partition of the replicating codes; frc and cyclic tolerate one straggler less.
        rescale: Unbiased rather than published weights, for bgc and ehd.
        cap: Largest load of a worker, for the optimal codes and osgc.
        rotations: Of the spread fill.
        seed: Of the random codes.

    Raises:
        ValueError: For an unknown name, and as the code itself.

    Example:
        >>> make_code("cyclic", [5, 5, 5], [0.1, 0.2, 0.3], partitions=3, kappa=9.4).load
        2.0
    """
    workers = as_probabilities(p).size
    for fill in get_args(Fill):
        if name == fill:
            return optimal_code(
                z, p, partitions=partitions, kappa=kappa, quantizer=quantizer, fill=fill, cap=cap, rotations=rotations
            )
    if name == "osgc":
        return osgc(p, partitions=partitions, cap=cap)
    if name in ("uncoded", "survivors"):
        return uncoded(p, partitions=partitions, importance=name == "uncoded")
    if name == "sgc":
        return sgc(p, partitions=partitions, replication=replication, seed=seed)
    if name == "bgc":
        return bgc(p, partitions=partitions, replication=replication, rescale=rescale, seed=seed)
    if name == "ehd":
        return erasure_head(p, partitions=partitions, replication=replication, rescale=rescale)
    if name == "frc":
        return fractional_repetition(workers, partitions=partitions, tolerance=replication - 1)
    if name == "cyclic":
        return cyclic(workers, partitions=partitions, tolerance=replication - 1, seed=seed)
    raise ValueError(f"code {name!r} is not known; choose one of {', '.join(CODE_NAMES)}.")
