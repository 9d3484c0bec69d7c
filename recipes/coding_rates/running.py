"""One run."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

import numpy as np
import torch

from lightning_async import simulate
from lightning_async.simulation import Job
from recipes.coding_rates.settings import SCHEMES, Run

__all__ = ["Result", "execute"]


@dataclass
class Result:
    """What a run left behind.

    Attributes:
        steps: Numbers of updates.
        errors: After so many updates: f - min f on a9a, the mean of squared gradient norms so far on the network.
    """

    steps: list[int]
    errors: list[float]
    wall_seconds: float


def execute(run: Run) -> Result:
    """Run to the horizon."""
    torch.set_num_threads(1)
    began = time.perf_counter()
    problem = run.make_problem()
    optimizer = torch.optim.SGD(problem.parameters, lr=run.step_size(0))
    coded = SCHEMES[run.scheme].code is not None

    def gradient(job: Job) -> list[torch.Tensor]:
        # The same rows for a partition of a round in every scheme.
        index, partition = divmod(job.number, run.workers) if coded else (job.number, job.worker)
        rows = np.random.default_rng([run.seed, index, partition]).integers(0, problem.num_rows, run.batch)
        return problem.gradient(torch.from_numpy(rows))

    simulation = simulate(
        run.make_method(), run.make_cluster(), problem.parameters, optimizer, gradient, max_steps=run.horizon
    )
    checkpoints = set(run.checkpoints)
    norms = [problem.measure()] if run.problem == "network" else []
    steps, errors = [], []
    for done in range(1, run.horizon + 1):
        optimizer.param_groups[0]["lr"] = run.step_size(done - 1)
        next(simulation)
        if run.problem == "network" and done % run.every == 0 and done < run.horizon:
            norms.append(problem.measure())
        if done in checkpoints:
            steps.append(done)
            errors.append(problem.measure() if run.problem == "a9a" else math.fsum(norms) / len(norms))
    return Result(steps, errors, time.perf_counter() - began)
