"""Local training of a logistic regression on a9a, without a Trainer."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Literal, TypeAlias

import torch
from torch import Tensor

from lightning_async import Link, SimulatedCluster, simulate
from lightning_async.methods import LOSCAR
from lightning_async.randomness import job_seed
from lightning_async.simulation import Job, TwoSpeedTimes
from recipes.a9a.objective import loss_gradient, objective
from recipes.data import A9A_TRAIN_ROWS, load_a9a

__all__ = ["VARIANTS", "Setting", "Variant", "objectives", "time_to_target"]

Variant: TypeAlias = Literal["blocking", "overwrite", "corrected"]
VARIANTS: tuple[Variant, ...] = ("blocking", "overwrite", "corrected")

BATCH_SIZE = 32


@dataclass(frozen=True)
class Setting:
    """How replicas are trained.

    Args:
        variant: "blocking" workers wait while a message travels; the others compute, and then correct or overwrite.
        sparsity: p, the fraction of the coordinates that is sent.
        window: logical time for local steps before a message.
        travel: logical time of a message of any size.
        slowdown: half of the workers take 1 per local step, half take this.
        workers: number of workers.
        skewed: whether rows are sorted by label and split: of 8 workers, 6 see one label only, 1 the other, 1 both.

    Raises:
        ValueError: if the variant is none of the three.
    """

    variant: Variant
    sparsity: float
    window: float
    travel: float
    slowdown: float = 1.0
    workers: int = 8
    skewed: bool = False

    def __post_init__(self) -> None:
        if self.variant not in VARIANTS:
            raise ValueError(f"variant must be one of {', '.join(VARIANTS)}, got {self.variant!r}")

    def method(self) -> LOSCAR:
        """The algorithm."""
        return LOSCAR(
            self.sparsity,
            merge="overwrite" if self.variant == "overwrite" else "corrected",
            overlap=self.variant != "blocking",
            compute_window=self.window,
        )

    def cluster(self, seed: int) -> SimulatedCluster:
        """The workers; masks have the seed."""
        return SimulatedCluster(TwoSpeedTimes(self.workers, self.slowdown), Link(latency=self.travel), seed)


def objectives(setting: Setting, lr: float, seed: int) -> Iterator[tuple[float, float]]:
    """Logical time and objective of the average model, at the start and at the end of every round.

    The objective is the mean logistic loss over all 32,561 training rows with the regulariser ||w||^2 / 65,122. A local
    step draws 32 rows of the worker's with replacement; all variants see the same draws.

    Args:
        setting: how replicas are trained.
        lr: step size of SGD.
        seed: seed of the rows, and of the masks.
    """
    signed, owned = _signed_rows(), _owned_rows(setting.workers if setting.skewed else 1)
    w = torch.zeros(signed.shape[1])

    def gradient(job: Job) -> list[Tensor]:
        draws = torch.Generator().manual_seed(job_seed(seed, job.worker, job.number))
        mine = owned[job.worker % len(owned)]
        rows = signed[mine[torch.randint(len(mine), (BATCH_SIZE,), generator=draws)]]
        return [loss_gradient(rows, w) + w / A9A_TRAIN_ROWS]

    def value() -> float:
        return float(objective(signed @ w, w, l2=1 / A9A_TRAIN_ROWS))

    yield 0.0, value()
    running = simulate(setting.method(), setting.cluster(seed), [w], torch.optim.SGD([w], lr=lr), gradient)
    closed = 0
    for step in running:
        if running.local.rounds > closed:
            closed = running.local.rounds
            yield step.time, value()


def time_to_target(setting: Setting, lr: float, seed: int, target: float, max_time: float) -> float:
    """Logical time at which the average model crosses the target, interpolated between the ends of rounds.

    Args:
        setting: how replicas are trained.
        lr: step size of SGD.
        seed: seed of the rows, and of the masks.
        target: value of the objective, above its minimum.
        max_time: logical time after which the run is given up.

    Returns:
        The time; infinite if the target was not reached in the time, or the objective became infinite.
    """
    last, before = 0.0, math.inf
    for time, value in objectives(setting, lr, seed):
        if value <= target:
            return last + (before - target) / (before - value) * (time - last)
        if time >= max_time or not math.isfinite(value):
            break
        last, before = time, value
    return math.inf


@cache
def _signed_rows() -> Tensor:
    return load_a9a().train.signed


@cache
def _owned_rows(owners: int) -> tuple[Tensor, ...]:
    """Numbers of the rows of each owner, sorted by label."""
    by_label = torch.argsort(load_a9a().train.targets, stable=True)
    return by_label.tensor_split(owners)
