"""One setting of the study for all seeds at once."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from lightning_async import SimulatedCluster, simulate
from lightning_async.methods import ASGD, Direction, Gradient
from lightning_async.simulation import Step, TwoSpeedTimes
from recipes.heavy_tails.noise import SubWeibullNoise
from recipes.heavy_tails.objectives import OBJECTIVES
from recipes.heavy_tails.settings import Run

__all__ = ["ClippedRowsASGD", "Result", "execute", "gradient_norms"]

_DIVERGED = 1e6
"""Gradient norm beyond which an iterate is left where it is, so that one seed cannot overflow."""


class ClippedRowsASGD(ASGD):
    """Clipped ASGD for many independent runs that are the rows of one parameter: each row has a norm of its own.

    Worker times are not random here, so that all seeds have one schedule, and differ in their noise only. A row moves
    as the same run alone does with `ClippedASGD`; a test holds the two against each other.
    """

    def __init__(self, radius: float) -> None:
        super().__init__()
        self.radius = radius

    def direction(self, step: Step, gradients: list[Gradient]) -> Direction:
        """clip_c of every row."""
        (rows,) = gradients[0]
        assert rows is not None
        norms = torch.linalg.vector_norm(rows, dim=1, keepdim=True)
        return [rows.mul_((self.radius / norms).clamp_(max=1.0))]


def gradient_norms(run: Run, seeds: Sequence[int]) -> npt.NDArray[np.float64]:
    """Norms of the exact gradient at x_0, ..., x_K, shape (K + 1, seeds)."""
    objective = OBJECTIVES[run.objective](run.dimension)
    noise = SubWeibullNoise(seeds, run.dimension, run.theta, run.noise, run.law)
    x = torch.full((len(seeds), run.dimension), run.start, dtype=torch.float64)
    norms = torch.empty(run.updates + 1, len(seeds), dtype=torch.float64)
    torch.linalg.vector_norm(objective.gradient(x), dim=1, out=norms[0])
    left = torch.zeros(len(seeds), dtype=torch.bool)

    def gradient() -> list[torch.Tensor]:
        noisy = objective.gradient(x).add_(noise.draw())
        return [noisy.masked_fill_(left[:, None], 0.0)] if left.any() else [noisy]

    method = ASGD() if run.clip is None else ClippedRowsASGD(run.clip)
    cluster = SimulatedCluster(TwoSpeedTimes(run.workers, run.slowdown))
    optimizer = torch.optim.SGD([x], lr=run.step)
    for step in simulate(method, cluster, [x], optimizer, lambda job: gradient(), max_steps=run.updates):
        now = norms[step.index + 1]
        torch.linalg.vector_norm(objective.gradient(x), dim=1, out=now)
        if now.max() > _DIVERGED:
            left |= now > _DIVERGED
    return norms.numpy()


@dataclass
class Result:
    """What the seeds of a setting left behind, one entry per seed; None where it was not reached.

    Attributes:
        first: Updates until the gradient norm is first at most eps.
        mean: Updates until the mean of the gradient norms of all iterates so far, the expected norm of an iterate that
            is drawn from them, is at most eps: what the theorems bound.
        settled: Updates after which the gradient norm stays at most eps, to the end of the run.
        final: Gradient norm of the last iterate.
        diverged: How many seeds were left beyond a gradient norm of 1e6.
    """

    first: list[int | None]
    mean: list[int | None]
    settled: list[int | None]
    final: list[float]
    diverged: int
    wall_seconds: float


def measured(norms: npt.NDArray[np.float64], eps: float, wall_seconds: float = 0.0) -> Result:
    """The measures of a run from its gradient norms, shape (K + 1, seeds)."""
    running_mean = np.cumsum(norms, axis=0) / np.arange(1, len(norms) + 1)[:, None]
    above = norms > eps
    last_above = np.where(above.any(axis=0), len(norms) - 1 - above[::-1].argmax(axis=0), -1)
    return Result(
        first=_first(~above),
        mean=_first(running_mean <= eps),
        settled=[int(last) + 1 if last < len(norms) - 1 else None for last in last_above],
        final=norms[-1].tolist(),
        diverged=int((norms[-1] > _DIVERGED).sum()),
        wall_seconds=wall_seconds,
    )


def _first(reached: npt.NDArray[np.bool_]) -> list[int | None]:
    return [int(row.argmax()) if row.any() else None for row in reached.T]


def execute(run: Run) -> Result:
    """All seeds of a setting."""
    torch.set_num_threads(1)
    began = time.perf_counter()
    norms = gradient_norms(run, range(run.seeds))
    return measured(norms, run.eps, time.perf_counter() - began)
