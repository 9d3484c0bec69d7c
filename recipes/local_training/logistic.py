"""Time that local training of a logistic regression on a9a needs to a target, without a Trainer."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from typing import Literal, TypeAlias

import torch
from torch import Tensor
from torch.nn.functional import softplus

from lightning_async import Link, SimulatedCluster, simulate
from lightning_async.methods import LOSCAR
from lightning_async.randomness import job_seed
from lightning_async.simulation import Job, TwoSpeedTimes
from recipes.data import A9A_TRAIN_ROWS, load_a9a

__all__ = ["VARIANTS", "Setting", "Variant", "time_to_target"]

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

    Raises:
        ValueError: if the variant is none of the three.
    """

    variant: Variant
    sparsity: float
    window: float
    travel: float
    slowdown: float = 1.0
    workers: int = 8

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


def time_to_target(setting: Setting, lr: float, seed: int, target: float, max_time: float) -> float:
    """Logical time at which the average model crosses the target, interpolated between the ends of rounds.

    The objective is the mean logistic loss over all 32,561 training rows with the regulariser ||w||^2 / 65,122; its
    minimum is 0.32338. A local step draws 32 rows with replacement; all variants see the same draws.

    Args:
        setting: how replicas are trained.
        lr: step size of SGD.
        seed: seed of the rows, and of the masks.
        target: value of the objective.
        max_time: logical time after which the run is given up.

    Returns:
        The time; infinite if the target was not reached in the time, or the objective became infinite.
    """
    signed = _signed_rows()
    w = torch.zeros(signed.shape[1])

    def gradient(job: Job) -> list[Tensor]:
        draws = torch.Generator().manual_seed(job_seed(seed, job.worker, job.number))
        rows = signed[torch.randint(len(signed), (BATCH_SIZE,), generator=draws)]
        return [-(rows.T @ torch.sigmoid(-(rows @ w))) / BATCH_SIZE + w / A9A_TRAIN_ROWS]

    def objective() -> float:
        return float(softplus(-(signed @ w)).mean() + w.square().sum() / (2 * A9A_TRAIN_ROWS))

    running = simulate(setting.method(), setting.cluster(seed), [w], torch.optim.SGD([w], lr=lr), gradient)
    last, value, closed = 0.0, objective(), 0
    for step in running:
        if running.local.rounds == closed:
            continue
        closed, before = running.local.rounds, value
        value = objective()
        if value <= target:
            return last + (before - target) / (before - value) * (step.time - last)
        last = step.time
        if last >= max_time or not math.isfinite(value):
            break
    return math.inf


@cache
def _signed_rows() -> Tensor:
    """Rows times labels."""
    data = load_a9a().train
    return data.features * data.targets[:, None]
