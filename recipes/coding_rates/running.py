"""One run, and the folder of results."""

from __future__ import annotations

import json
import math
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import torch

from lightning_async import simulate
from lightning_async.cli.compare.results import write_atomically
from lightning_async.simulation import Job
from recipes.coding_rates.settings import SCHEMES, Run

__all__ = ["Result", "execute", "run_missing"]


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


def run_missing(runs: list[Run], folder: Path, jobs: int) -> dict[str, Result]:
    """Run what has no result in the folder yet, several at a time; a result is stored as soon as it is there."""
    results = {run.key: found for run in runs if (found := _read(folder, run)) is not None}
    missing = {run.key: run for run in runs if run.key not in results}
    with ProcessPoolExecutor(jobs, get_context("spawn")) as pool:
        futures = {pool.submit(execute, run): run for run in missing.values()}
        try:
            for number, future in enumerate(as_completed(futures), 1):
                run, result = futures[future], future.result()
                content = json.dumps({"run": asdict(run), "result": asdict(result)})
                write_atomically(folder / "runs" / f"{run.key}.json", content)
                results[run.key] = result
                print(f"{number}/{len(missing)}: {run.name}: {result.errors[-1]:.3g}, {result.wall_seconds:.1f} s")
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return results


def _read(folder: Path, run: Run) -> Result | None:
    try:
        return Result(**json.loads((folder / "runs" / f"{run.key}.json").read_text(encoding="utf-8"))["result"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
