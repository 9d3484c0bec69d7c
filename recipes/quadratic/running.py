"""One run of the study, and the folder of results."""

from __future__ import annotations

import json
import math
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

import torch

from lightning_async import simulate
from lightning_async.cli.compare.measures import Outcome, time_to_target
from lightning_async.cli.compare.results import write_atomically
from lightning_async.cli.compare.schema import Target
from recipes.quadratic.problem import Quadratic
from recipes.quadratic.settings import Run

__all__ = ["Result", "Results", "execute"]

_DIVERGED = 100.0  # times the gap of the start


@dataclass
class Result:
    """What a run left behind.

    Attributes:
        times: Logical time of every evaluation.
        gaps: f(x) - min f at every evaluation.
        updates: Server updates made.
        discarded: Jobs that were stopped or refused.
    """

    status: Literal["finished", "diverged"]
    times: list[float]
    gaps: list[float]
    updates: int
    discarded: int
    wall_seconds: float

    def outcome(self, target: float, horizon: float) -> Outcome:
        """The run against a target."""
        wanted = Target("gap", target, "min")
        final = math.nan if self.status == "diverged" else self.gaps[-1]
        return Outcome(time_to_target(self.times, self.gaps, wanted), horizon, final, self.status)


def execute(run: Run) -> Result:
    """Run to the horizon, to the target if the run has one, or until it diverges."""
    torch.set_num_threads(1)
    began = time.perf_counter()
    problem = Quadratic(run.dimension, run.noise, run.seed)
    x = problem.start()
    times, gaps = [0.0], [problem.gap(x)]
    spacing = run.horizon / run.evaluations
    status: Literal["finished", "diverged"] = "finished"
    simulation = simulate(
        run.make_method(),
        run.make_cluster(),
        [x],
        run.make_optimizer(x),
        lambda job: [problem.gradient(x)],
        max_time=run.horizon,
    )
    for step in simulation:
        if step.time < times[-1] + spacing:
            continue
        times.append(step.time)
        gaps.append(problem.gap(x))
        if not gaps[-1] <= _DIVERGED * gaps[0]:
            status = "diverged"
            times.pop(), gaps.pop()
            break
        if run.stop is not None and gaps[-1] <= run.stop:
            break
    else:
        times.append(run.horizon)
        gaps.append(problem.gap(x))
    server = simulation.server
    return Result(status, times, gaps, server.completed, server.discarded, time.perf_counter() - began)


class Results:
    """Finished runs: one file each, written whole or not at all."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def read(self, run: Run) -> Result | None:
        """The result of a run; None if there is none."""
        try:
            content = json.loads(self._path(run).read_text(encoding="utf-8"))
            return Result(**content["result"])
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def write(self, run: Run, result: Result) -> None:
        """Store the result of a run beside its description."""
        content = json.dumps({"run": asdict(run), "result": asdict(result)}, allow_nan=False)
        write_atomically(self._path(run), content)

    def _path(self, run: Run) -> Path:
        return self.folder / "runs" / f"{run.key}.json"
