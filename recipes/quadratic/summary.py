"""The lines of the study's table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lightning_async.cli.compare.measures import (
    Estimate,
    Outcome,
    better_point,
    mean_final,
    mean_time,
    speed_up,
)
from lightning_async.cli.compare.schema import Target
from recipes.quadratic.running import Result
from recipes.quadratic.settings import Run, Study

__all__ = ["Line", "chosen_point", "summarize"]

Point = tuple[float, int | None]
Read = Mapping[str, Result]
"""Results by the key of their run."""


@dataclass(frozen=True)
class Line:
    """One method on one profile of times.

    Attributes:
        point: The step size and count that won.
        at_edge: Whether a value of the point is the first or last of several.
        results: The reported runs by seed.
        arrived: How many of them reached the target.
        time: Mean time to target.
        final: Mean gap at the horizon.
        behind: How many times longer than Ringmaster the method takes, paired by seed; None for Ringmaster itself.
    """

    method: str
    point: Point
    at_edge: bool
    results: dict[int, Result]
    arrived: int
    time: Estimate
    final: Estimate
    behind: Estimate | None


def outcomes_of(study: Study, profile: str, runs: list[Run], results: Read) -> list[Outcome]:
    """The runs against the target of their profile."""
    wanted = study.profiles[profile]
    return [results[run.key].outcome(wanted.target, wanted.horizon) for run in runs]


def chosen_point(study: Study, profile: str, method: str, results: Read) -> Point:
    """The point of the grid with the shortest time to target; where none arrives, with the smallest gap at the end."""
    outcomes = {
        point: outcomes_of(study, profile, runs, results) for point, runs in study.tuning_runs(profile, method).items()
    }
    return better_point(outcomes, Target("gap", study.profiles[profile].target, "min"))


def reported_runs(study: Study, profile: str, method: str, point: Point) -> dict[int, Run]:
    """The runs that the table shows, by seed."""
    return {seed: study.run(profile, method, point, seed, tuning=False) for seed in study.seeds}


def summarize(study: Study, profile: str, results: Read) -> list[Line]:
    """The table of one profile, in the order of the configuration."""
    lines: list[Line] = []
    reference: dict[int, Outcome] = {}
    for method in sorted(study.methods, key=lambda name: name != "ringmaster"):
        point = chosen_point(study, profile, method, results)
        runs = reported_runs(study, profile, method, point)
        outcomes = dict(zip(runs, outcomes_of(study, profile, list(runs.values()), results), strict=True))
        reference = reference or outcomes
        lines.append(
            Line(
                method,
                point,
                _at_edge(study, method, point),
                {seed: results[run.key] for seed, run in runs.items()},
                sum(outcome.arrived is not None for outcome in outcomes.values()),
                mean_time(list(outcomes.values())),
                mean_final(list(outcomes.values())),
                speed_up(outcomes, reference) if method != "ringmaster" and "ringmaster" in study.methods else None,
            )
        )
    return lines


def _at_edge(study: Study, method: str, point: Point) -> bool:
    steps, counts = study.step_sizes(method), study.methods[method].count or []
    step, count = point
    return (len(steps) > 2 and step in (min(steps), max(steps))) or (
        len(counts) > 2 and count in (min(counts), max(counts))
    )
