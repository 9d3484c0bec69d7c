"""From straggling probabilities to a code: who gets how many bits, and who holds what."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import get_args

import numpy as np

from lightning_async.coding import AllocationMethod, Fill, GradientCode, QuantizerName, allocate_bits, make_code
from lightning_async.coding.registry import QUANTIZERS, CodeName
from lightning_async.coding.validation import BoolArray, FloatArray, IntArray

OPTIMAL_CODES: tuple[str, ...] = get_args(Fill)
"""Codes that are made for the bits; the others are blind to them."""

FIXED_WEIGHT_CODES = (*OPTIMAL_CODES, "osgc", "uncoded", "sgc", "bgc")
"""Codes whose own decoder has the same weight for a worker whenever it arrives; other decoders start from those."""

_MOST_SAMPLED = 2**20


@dataclass(frozen=True, eq=False)
class CodePlan:
    """What holds until the next plan.

    Attributes:
        p: straggling probabilities the code was made for; 1 for workers with too few bits to send anything.
        bits: bits a coordinate of every worker.
        code: the code.
        sends: workers that send a message when they are in time.
        holders: first worker that holds each partition; 0 for a partition that nobody holds.
        held: partition to coefficient, of those that each worker holds.
    """

    p: FloatArray
    bits: IntArray
    code: GradientCode
    sends: BoolArray
    holders: tuple[int, ...]
    held: tuple[dict[int, float], ...]


@dataclass(frozen=True)
class CodeDesign:
    """Everything that a plan depends on but the straggling probabilities.

    Attributes:
        code: name of the code.
        bits: bits a coordinate over all workers, or of every worker.
        quantizer: name of the quantiser.
        partitions: number of partitions, K.
        kappa: squared crest factor of the messages.
        allocation: how a total of bits is distributed.
        zmax: most bits of one worker.
        replication: workers for a partition of the replicating codes.
        rescale: unbiased rather than published weights (bgc, ehd).
        cap: largest load of a worker (optimal codes, osgc).
        rotations: of the spread fill.
        seed: of the random codes.
    """

    code: CodeName
    bits: int | tuple[int, ...]
    quantizer: QuantizerName
    partitions: int
    kappa: float
    allocation: AllocationMethod
    zmax: int
    replication: int
    rescale: bool
    cap: float | None
    rotations: int
    seed: int

    def plan(self, p: FloatArray) -> CodePlan:
        """The bits and the code for straggling probabilities; the same object for the same ones, most of the time.

        Raises:
            ValueError: if the numbers of bits and workers differ, no worker can send, or the code cannot be made.
        """
        return _plan(self, tuple(p.tolist()))


@lru_cache(maxsize=256)
def _plan(design: CodeDesign, p: tuple[float, ...]) -> CodePlan:
    given = np.array(p)
    if (given == 1.0).all():
        raise ValueError("every worker straggles with probability 1: nothing ever arrives; let some p be below 1")
    bits = _bits(design, given)
    least = QUANTIZERS[design.quantizer].min_bits
    silent = bits < least
    if silent.all():
        raise ValueError(
            f"bits={design.bits} leaves no worker the {least} bits a coordinate that quantizer {design.quantizer!r} "
            f"needs; raise bits"
            + (f" to at least {least * len(p)}, or allocate otherwise" if design.allocation == "equal" else "")
        )
    if design.code == "uncoded" and silent.any():
        raise ValueError(
            f"code 'uncoded' needs a message of every worker, but bits={design.bits} gives workers "
            f"{np.flatnonzero(silent).tolist()} less than the {least} bits a coordinate that quantizer "
            f"{design.quantizer!r} needs. Raise bits to at least {least * len(p)}, or use the code 'interval', which "
            f"gives partitions only to workers that have bits."
        )
    straggling = np.where(silent, 1.0, given)
    code = make_code(
        design.code,
        bits,
        straggling,
        partitions=design.partitions,
        kappa=design.kappa,
        quantizer=design.quantizer,
        replication=design.replication,
        rescale=design.rescale,
        cap=design.cap,
        rotations=design.rotations,
        seed=design.seed,
    )
    holders = np.argmax(code.assignment != 0, axis=0)
    held = tuple({int(j): float(row[j]) for j in np.flatnonzero(row)} for row in code.assignment)
    return CodePlan(straggling, bits, code, code.used & ~silent, tuple(holders.tolist()), held)


def _bits(design: CodeDesign, p: FloatArray) -> IntArray:
    if isinstance(design.bits, tuple):
        if len(design.bits) != len(p):
            raise ValueError(
                f"bits has {len(design.bits)} entries for {len(p)} workers: give one for each worker, or one number "
                f"for all together"
            )
        return np.array(design.bits, dtype=np.int64)
    return allocate_bits(
        p, design.bits, kappa=design.kappa, zmax=design.zmax, quantizer=design.quantizer, method=design.allocation
    )


@lru_cache
def gaussian_crest_factor(coordinates: int, *, symmetric: bool = False) -> float:
    """Squared crest factor of a bucket of independent normal numbers, to three digits.

    Args:
        coordinates: size of the bucket, D.
        symmetric: for a range [-max |y|, max |y|] rather than [min y, max y].

    Example:
        >>> gaussian_crest_factor(512)
        9.32
    """
    size = min(coordinates, _MOST_SAMPLED)
    rows = np.random.default_rng(0).standard_normal((max(1, 2**21 // size), size))
    half = np.abs(rows).max(axis=1) if symmetric else (rows.max(axis=1) - rows.min(axis=1)) / 2
    return float(f"{(size * half**2 / (rows**2).sum(axis=1)).mean():.3g}")
