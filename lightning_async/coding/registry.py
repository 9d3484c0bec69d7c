"""Codes, quantisers and decoders by name, for configuration."""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

import numpy.typing as npt

from lightning_async.arguments import choice, count, real
from lightning_async.coding.baselines import bgc, cyclic, erasure_head, fractional_repetition, sgc, uncoded
from lightning_async.coding.codes import Fill, GradientCode, optimal_code, osgc
from lightning_async.coding.decoders import Decoder, FixedDecoder
from lightning_async.coding.quantizers import NoQuantizer, Quantizer, StochasticRounding, SubtractiveDither
from lightning_async.coding.set_aware import SetAwareDecoder
from lightning_async.coding.sign_magnitude import QSGD, NormScaled
from lightning_async.coding.validation import as_correlation, as_probabilities, as_variances
from lightning_async.coding.variance import QuantizerName, worker_utility

QUANTIZERS: dict[QuantizerName, type[Quantizer]] = {
    "dither": SubtractiveDither,
    "rounding": StochasticRounding,
    "qsgd": QSGD,
    "norm": NormScaled,
    "none": NoQuantizer,
}

CodeName: TypeAlias = Literal[Fill, "osgc", "uncoded", "survivors", "sgc", "bgc", "ehd", "frc", "cyclic"]
DecoderName: TypeAlias = Literal["own", "min_mse", "regularized", "set_aware", "lmmse"]

CODE_NAMES: tuple[CodeName, ...] = get_args(CodeName)
DECODER_NAMES: tuple[DecoderName, ...] = get_args(DecoderName)


def make_quantizer(name: QuantizerName, *, bucket: int = 512) -> Quantizer:
    """A quantiser by name; ``bucket`` is for those that have buckets.

    Raises:
        TypeError: If an argument is of the wrong kind.
        ValueError: For an unknown name.

    Example:
        >>> make_quantizer("qsgd", bucket=64).min_bits
        2
    """
    choice("quantizer", name, tuple(QUANTIZERS))
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
        TypeError: If an argument is of the wrong kind.
        ValueError: For an unknown name, and as the code itself.

    Example:
        >>> make_code("cyclic", [5, 5, 5], [0.1, 0.2, 0.3], partitions=3, kappa=9.4).load
        2.0
    """
    choice("code", name, CODE_NAMES)
    workers = as_probabilities(p).size
    count("replication", replication)
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
    return cyclic(workers, partitions=partitions, tolerance=replication - 1, seed=seed)


def make_decoder(
    name: str, code: GradientCode, p: npt.ArrayLike, q: npt.ArrayLike, *, rho: float = 0.0, strength: float = 1.0
) -> Decoder:
    """A decoder for a code by name.

    Args:
        name: ``"own"`` (the code's own, unbiased for the optimal codes), ``"min_mse"`` (shrunk by U / (1 + U)),
            ``"regularized"`` (the second decoder in the code of Song and Choi), ``"set_aware"`` (unbiased given who
            arrived) or ``"lmmse"`` (least squares given who arrived).
        code: The code; all decoders but ``"own"`` need one with fixed weights.
        p: Straggling probabilities.
        q: Relative variances of the quantiser at every worker; infinite where it sends nothing.
        rho: Correlation of the partition gradients, for the two decoders that know who arrived.
        strength: lambda of the regularized decoder.

    Raises:
        TypeError: If an argument is of the wrong kind.
        ValueError: For an unknown name, a code without fixed weights, or a value that is out of range.

    Example:
        >>> import numpy as np
        >>> code = make_code("interval", [3, 3], [0.5, 0.5], partitions=2, kappa=9.0)
        >>> make_decoder("min_mse", code, [0.5, 0.5], [0.5, 0.5]).weights(np.array([True, True])).tolist()
        [1.0, 1.0]
    """
    choice("decoder", name, DECODER_NAMES)
    workers, partitions = code.assignment.shape
    straggling = as_probabilities(p, workers)
    variance = as_variances(q, workers)
    as_correlation(rho, partitions)
    real("strength", strength, above=0.0)
    if name == "own":
        return code.decoder
    if name in ("set_aware", "lmmse"):
        return SetAwareDecoder(code, straggling, variance, rho=rho, unbiased=name == "set_aware")
    if not isinstance(code.decoder, FixedDecoder):
        raise ValueError(
            f"decoder {name!r} shrinks fixed weights, but this code is decoded by {type(code.decoder).__name__}; "
            "use 'own'."
        )
    if not code.used.any():
        return code.decoder
    if name == "min_mse":
        return code.decoder.minimum_mse(float(worker_utility(straggling, variance)[code.used].sum()))
    return code.decoder.regularized(straggling[code.used], strength)
