"""Time to a target on a9a, against a count of the local steps that the average model keeps."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal, TypeAlias

import torch
from torch import Tensor
from torch.nn.functional import softplus

from lightning_async import Link, SimulatedCluster, simulate
from lightning_async.methods import LOSCAR
from lightning_async.randomness import job_seed
from lightning_async.simulation import Job, UniformTimes
from recipes.data import A9A_TRAIN_ROWS, load_a9a

__all__ = ["StepCounting", "Variant", "predicted_ratios"]

MOST_ROUNDS = 500

Variant: TypeAlias = Literal["corrected", "overwrite", "blocking"]


def predicted_ratios(before: float, during: float, sparsity: float) -> dict[Variant, float]:
    """How many times longer than with the corrected merge a target takes, by counting the steps of a round.

    With N local steps before the message and Q while it travels, the average model keeps N + Q with the corrected
    merge, N without overlap, and N + (1 - p) Q if what was sent is overwritten.

    Args:
        before: local steps N of a worker before the message.
        during: local steps Q while it travels.
        sparsity: p, the fraction of the coordinates that is sent.

    Example:
        >>> predicted_ratios(before=4, during=16, sparsity=0.5)
        {'corrected': 1.0, 'overwrite': 1.6666666666666667, 'blocking': 5.0}
    """
    steps = before + during
    return {"corrected": 1.0, "overwrite": steps / (before + (1 - sparsity) * during), "blocking": steps / before}


@dataclass(frozen=True)
class StepCounting:
    """Logistic regression on a9a by equal workers, one unit of time per local step.

    Args:
        workers: number of workers.
        window: logical time for local steps before a message, N.
        travel: logical time of a message, Q.
        sparsity: p, the fraction of the coordinates that is sent.
        lr: step size, the same for all variants.
        batch_size: rows per local step, drawn with replacement.
        target: value of the training objective that the average model has to reach; its minimum is 0.32338.
    """

    workers: int = 8
    window: float = 4.0
    travel: float = 16.0
    sparsity: float = 0.5
    lr: float = 0.5
    batch_size: int = 32
    target: float = 0.335

    @property
    def predicted(self) -> dict[Variant, float]:
        """Times over that of the corrected merge, as step counting has them."""
        return predicted_ratios(self.window, self.travel, self.sparsity)

    def time_to_target(self, variant: Variant, seed: int) -> float:
        """Logical time at which the average model crosses the target, interpolated between the ends of rounds.

        Raises:
            RuntimeError: if it has not crossed it after 500 rounds.
        """
        w = torch.zeros(self._signed.shape[1])

        def gradient(job: Job) -> list[Tensor]:
            draws = torch.Generator().manual_seed(job_seed(seed, job.worker, job.number))
            rows = self._signed[torch.randint(len(self._signed), (self.batch_size,), generator=draws)]
            return [-(rows.T @ torch.sigmoid(-(rows @ w))) / len(rows) + w / A9A_TRAIN_ROWS]

        method = LOSCAR(
            self.sparsity,
            merge="overwrite" if variant == "overwrite" else "corrected",
            overlap=variant != "blocking",
            compute_window=self.window,
        )
        cluster = SimulatedCluster(UniformTimes(self.workers), Link(latency=self.travel), seed)
        running = simulate(method, cluster, [w], torch.optim.SGD([w], lr=self.lr), gradient)
        before, closed = (0.0, self._objective(w)), 0
        for step in running:
            if running.local.rounds == closed:
                continue
            closed = running.local.rounds
            now = (step.time, self._objective(w))
            if now[1] <= self.target:
                share = (before[1] - self.target) / (before[1] - now[1])
                return before[0] + share * (now[0] - before[0])
            before = now
            if closed == MOST_ROUNDS:
                break
        raise RuntimeError(
            f"{variant} has not reached {self.target} after {MOST_ROUNDS} rounds: raise the target, or change the step "
            f"size"
        )

    @cached_property
    def _signed(self) -> Tensor:
        """Rows times labels."""
        data = load_a9a().train
        return data.features * data.targets[:, None]

    def _objective(self, w: Tensor) -> float:
        regularizer = w.square().sum() / (2 * A9A_TRAIN_ROWS)
        return float(softplus(-(self._signed @ w)).mean() + regularizer)
