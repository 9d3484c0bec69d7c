"""One run of the study."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import Literal

import torch

from lightning_async import simulate
from lightning_async.cli.compare.measures import Outcome, time_to_target
from lightning_async.cli.compare.schema import Target
from recipes.quadratic.problem import Quadratic
from recipes.quadratic.settings import Run

__all__ = ["Result", "execute"]

_DIVERGED = 100.0  # times the gap of the start


@dataclass
class Result:
    """What a run left behind.

    Attributes:
        times: Logical time of every evaluation, at equal distances from 0.
        gaps: f(x) - min f of the iterate that stands at that time.
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
    # Updates come in bursts when many workers finish together: what counts is the iterate that stands at a time, not
    # the one that a burst passes through, hence the copy of the iterate before each update.
    standing = x.clone()
    times, gaps = [0.0], [problem.gap(x)]
    status: Literal["finished", "diverged"] = "finished"
    simulation = simulate(
        run.make_method(),
        run.make_cluster(),
        [x],
        run.make_optimizer(x),
        lambda job: [problem.gradient(x)],
        max_time=run.horizon,
    )
    while len(times) <= run.evaluations:
        step = next(simulation, None)
        gap = None
        while len(times) <= run.evaluations and (step is None or _time(run, len(times)) < step.time):
            gap = problem.gap(standing) if gap is None else gap
            if not gap <= _DIVERGED * gaps[0]:
                status = "diverged"
                break
            times.append(_time(run, len(times)))
            gaps.append(gap)
            if run.stop is not None and gap <= run.stop:
                break
        if status == "diverged" or (run.stop is not None and gaps[-1] <= run.stop):
            break
        standing.copy_(x)
    server = simulation.server
    return Result(status, times, gaps, server.completed, server.discarded, time.perf_counter() - began)


def _time(run: Run, evaluation: int) -> float:
    return run.horizon * evaluation / run.evaluations
