"""Gradient coding: what stragglers would have sent is decoded from quantised messages of the others."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, cast, get_args

import numpy as np

from lightning_async.arguments import boolean, choice, count, real
from lightning_async.coding import AllocationMethod, QuantizerName, make_quantizer
from lightning_async.coding.registry import CODE_NAMES, DECODER_NAMES, QUANTIZERS, CodeName, DecoderName
from lightning_async.coding.validation import MAX_BITS
from lightning_async.coding.variance import check_zmax
from lightning_async.methods.base import Direction, Gradient, Method
from lightning_async.methods.code_design import (
    FIXED_WEIGHT_CODES,
    OPTIMAL_CODES,
    CodeDesign,
    gaussian_crest_factor,
)
from lightning_async.methods.coded_decoding import Receiver
from lightning_async.methods.coded_step import CodedStep
from lightning_async.methods.straggling import Straggling, straggling
from lightning_async.simulation import Cluster, Job, SimulatedCluster, Step


class GradientCoding(Method):
    """Communication-efficient gradient coding.

    Song and Choi 2026 (arXiv 2605.15890). The data of a step are split into K partitions. Worker i computes the
    gradients g_j of those that the code gives it, and sends Q(sum_j A_ij g_j), quantised to z_i bits a coordinate. The
    server waits for `deadline`, in logical time; messages that are late are lost. It steps along ghat / K, where ghat
    is decoded from what arrived. When nothing arrives, the iterate stays, and the step counts all the same.

    The times of the cluster are those of a worker's whole message, however many partitions it has. Straggling
    probabilities are those of `BernoulliStragglers`, also where they change with the round; 0 or 1 for times that never
    change; otherwise they are counted, and bits and code are made anew every `replan` rounds.

    Only partitions that a worker in time holds are computed, and only their mini-batches are drawn. If the strategy has
    a `partition`, the data are split over `partitions` owners, and `job.shard` is the partition; otherwise a partition
    is the next mini-batch of the common stream.

    Bits and code are made for a fixed `kappa`, so that the schedule does not depend on the gradients. It is measured
    all the same, and so is the correlation rho of the partition gradients: both are logged, and used by decoders that
    make use of them; put the measured kappa into the configuration where it is far from the assumed one.

    Args:
        code: ``"interval"``, ``"alias"`` and ``"spread"`` are optimal for the bits; baselines are ``"osgc"``,
            ``"uncoded"`` (importance weights), ``"survivors"`` (uncoded, mean of what arrives), ``"sgc"``, ``"bgc"``,
            ``"ehd"``, ``"frc"`` and ``"cyclic"``.
        bits: bits a coordinate over all workers together, or one number for each worker.
        quantizer: ``"dither"``, ``"rounding"``, ``"qsgd"``, ``"norm"`` or ``"none"``.
        decoder: ``"own"`` (the code's), ``"min_mse"``, ``"regularized"``, ``"set_aware"`` or ``"lmmse"``.
        partitions: number of partitions, K.
        deadline: how long a round lasts, in logical time.
        second: decoder of a second estimate, for the second moment of `TwoTrackAdam`; None for none.
        allocation: how a total of bits is distributed; "exact" for the optimal codes and "equal" for others if None.
        zmax: most bits of one worker, at most 16.
        kappa: squared crest factor that bits and code are made for; that of Gaussian gradients if None.
        bucket: coordinates that share a scale (dither, rounding, qsgd).
        rho: correlation of two partition gradients for set-aware decoders; estimated from the messages if None.
        strength: lambda of the regularized decoder.
        replication: workers for each partition (sgc, bgc, ehd; frc and cyclic tolerate one straggler less).
        rescale: unbiased rather than published weights (bgc, ehd).
        cap: largest load of a worker, in partitions (optimal codes, osgc).
        rotations: of the spread fill.
        counted: count stragglers even if their probabilities are known.
        replan: rounds between two plans where stragglers are counted.
        measure_error: compute all partitions in every step and log `relative_error`, the square of the error relative
            to that of the full gradient.

    Raises:
        TypeError: if an argument is of the wrong kind.
        ValueError: if an argument has a value that is not allowed; at the start of a run, if `bits` does not fit the
            number of workers or leaves none of them enough, or the code cannot be made.

    Example:
        >>> from lightning_async.simulation import BernoulliStragglers
        >>> cluster = SimulatedCluster(BernoulliStragglers([0.1, 0.2, 0.5]))
        >>> method = GradientCoding("interval", 12, "dither", "own", partitions=3)
        >>> first = next(method.steps(cluster))
        >>> first.time, first.arrived.tolist(), first.plan.bits.tolist(), first.partitions
        (1.0, [True, True, False], [5, 4, 3], (0, 1, 2))
    """

    def __init__(
        self,
        code: CodeName,
        bits: int | Sequence[int],
        quantizer: QuantizerName,
        decoder: DecoderName,
        partitions: int,
        deadline: float = 1.0,
        *,
        second: DecoderName | None = None,
        allocation: AllocationMethod | None = None,
        zmax: int = MAX_BITS,
        kappa: float | None = None,
        bucket: int = 512,
        rho: float | None = None,
        strength: float = 1.0,
        replication: int = 2,
        rescale: bool = True,
        cap: float | None = None,
        rotations: int = 4,
        counted: bool = False,
        replan: int = 64,
        measure_error: bool = False,
    ) -> None:
        self.code = choice("code", code, CODE_NAMES)
        self.quantizer = choice("quantizer", quantizer, tuple(QUANTIZERS))
        self.bits = _bits(bits, QUANTIZERS[quantizer].min_bits)
        self.decoder = _decoder("decoder", decoder, code)
        self.partitions = count("partitions", partitions)
        self.deadline = real("deadline", deadline, above=0.0)
        self.second = None if second is None else _decoder("second", second, code)
        self.allocation = None if allocation is None else choice("allocation", allocation, get_args(AllocationMethod))
        self.zmax = check_zmax(zmax)
        self.kappa = None if kappa is None else real("kappa", kappa, above=0.0)
        self.bucket = count("bucket", bucket)
        lowest = -1.0 / max(self.partitions - 1, 1)
        between = f" for {self.partitions} partitions, or None"
        self.rho = None if rho is None else real("rho", rho, at_least=lowest, at_most=1.0, note=between)
        self.strength = real("strength", strength, above=0.0)
        self.replication = count("replication", replication)
        self.rescale = boolean("rescale", rescale)
        self.cap = None if cap is None else real("cap", cap, above=0.0, finite=False)
        self.rotations = count("rotations", rotations)
        self.counted = boolean("counted", counted)
        self.replan = count("replan", replan)
        self.measure_error = boolean("measure_error", measure_error)
        self._coordinates: int | None = None

    def steps(self, cluster: Cluster) -> Iterator[Step]:
        """One update per round of length `deadline`."""
        design = self._design(cluster)
        stragglers = straggling(
            cluster,
            self.deadline,
            num_bytes=self.message_bytes(cluster),
            period=self.replan,
            counted=self.counted,
        )
        design.plan(stragglers.probabilities(0))  # so that what cannot be made is refused before the first step
        return self._rounds(cluster, design, stragglers)

    def _rounds(self, cluster: Cluster, design: CodeDesign, stragglers: Straggling) -> Iterator[Step]:
        everything = np.arange(self.partitions)
        for k in itertools.count():
            plan = design.plan(stragglers.probabilities(k))
            jobs = [cluster.dispatch(worker, version=k) for worker in cluster.workers]
            in_time = np.zeros(len(jobs), dtype=np.bool_)
            for arrival in cluster.arrivals_until(cluster.now + self.deadline):
                in_time[arrival.worker] = True
            cluster.cancel_all()
            stragglers.observe(in_time)
            arrived = in_time & plan.sends
            yield CodedStep.of(
                k,
                cluster.now,
                everything if self.measure_error else plan.code.partitions_of(arrived),
                discarded=int((plan.sends & ~in_time).sum()),
                plan=plan,
                arrived=arrived,
                seed=design.seed,
                sharded=jobs[0].shard is not None,
            )

    def direction(self, step: Step, gradients: list[Gradient]) -> Direction | None:
        """What the decoder makes of the messages, over K; None if none of them arrived."""
        assert isinstance(step, CodedStep)
        return self._receiver.receive(step, gradients, measure_error=self.measure_error)

    def jobs_per_step(self, num_workers: int) -> int | None:
        """It varies with who is in time, unless all partitions are computed."""
        return self.partitions if self.measure_error else None

    def num_shards(self, num_workers: int) -> int:
        """K."""
        return self.partitions

    def max_delay(self, index: int) -> int | None:
        """0: all gradients are taken at the current iterate."""
        return 0

    def used_time(self, step: Step, cluster: SimulatedCluster) -> float:
        """Time of the workers whose messages arrived."""
        assert isinstance(step, CodedStep)
        workers = map(int, np.flatnonzero(step.arrived))
        return sum(cluster.worker_time(Job(worker, step.index, step.index)) for worker in workers)

    def bind(self, num_coordinates: int, bytes_per_coordinate: float) -> None:
        """Take the size of the model."""
        super().bind(num_coordinates, bytes_per_coordinate)
        self._coordinates = num_coordinates

    def metrics(self, step: Step) -> dict[str, float]:
        """Messages `arrived` and `bits/step` of the step, `bits_sent` in all, `kappa`, `rho`, `relative_error`."""
        assert isinstance(step, CodedStep)
        return self._receiver.metrics(step)

    def state_dict(self) -> dict[str, Any]:
        """Bits sent so far, and what is known of the gradients."""
        return self._receiver.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore what `state_dict` returned."""
        self.reset()
        self._receiver.load_state_dict(state)

    def reset(self) -> None:
        """Nothing sent, nothing learnt."""
        self.__dict__.pop("_receiver", None)

    @cached_property
    def _receiver(self) -> Receiver:
        return Receiver(
            make_quantizer(self.quantizer, bucket=self.bucket),
            (self.decoder,) if self.second is None else (self.decoder, self.second),
            kappa=self._assumed_kappa(),
            rho=self.rho,
            strength=self.strength,
        )

    def _design(self, cluster: Cluster) -> CodeDesign:
        return CodeDesign(
            code=self.code,
            bits=self.bits,
            quantizer=self.quantizer,
            partitions=self.partitions,
            kappa=self._assumed_kappa(),
            allocation=self.allocation or ("exact" if self.code in OPTIMAL_CODES else "equal"),
            zmax=self.zmax,
            replication=self.replication,
            rescale=self.rescale,
            cap=self.cap,
            rotations=self.rotations,
            seed=cluster.seed % 2**63,
        )

    def _assumed_kappa(self) -> float:
        if self.kappa is not None:
            return self.kappa
        if self.quantizer == "none":
            return 1.0
        if self.quantizer == "norm":
            if self._coordinates is None:
                raise RuntimeError(
                    "the variance of quantizer 'norm' grows with the size of the model: call method.bind("
                    "num_coordinates, bytes_per_coordinate) before method.steps(cluster), or give kappa"
                )
            return float(self._coordinates)
        bucket = self.bucket if self._coordinates is None else min(self.bucket, self._coordinates)
        return gaussian_crest_factor(bucket, symmetric=self.quantizer == "qsgd")


def _bits(bits: object, least: int) -> int | tuple[int, ...]:
    if isinstance(bits, np.ndarray) and bits.ndim:
        bits = bits.tolist()
    if isinstance(bits, (str, bytes)) or not isinstance(bits, Sequence):
        return count("bits", cast("int", bits), note=" in all, or one number for each worker")
    checked = tuple(count(f"bits[{worker}]", z, at_least=0) for worker, z in enumerate(bits))
    wrong = [worker for worker, z in enumerate(checked) if not (z == 0 or least <= z <= MAX_BITS)]
    if wrong or not any(checked):
        raise ValueError(
            f"bits, one for each worker, must be 0 (not used) or {least} to {MAX_BITS} for this quantizer, and not all "
            f"0; got {list(checked)}" + (f", of which that of worker {wrong[0]} is wrong" if wrong else "")
        )
    return checked


def _decoder(name: str, decoder: DecoderName, code: str) -> DecoderName:
    if choice(name, decoder, DECODER_NAMES) != "own" and code not in FIXED_WEIGHT_CODES:
        raise ValueError(
            f"{name}={decoder!r} starts from weights that do not depend on who arrives, which the code {code!r} does "
            f"not have; use {name}='own', or one of the codes {', '.join(FIXED_WEIGHT_CODES)}"
        )
    return decoder
