"""The lines of a comparison's table, as numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lightning_async.cli.compare.axes import positions
from lightning_async.cli.compare.configuration import Config, full_key, lookup
from lightning_async.cli.compare.holding import on_grid
from lightning_async.cli.compare.measures import Estimate, Outcome, mean_final, mean_time, outcome, speed_up
from lightning_async.cli.compare.plan import Point, Run, chosen_point, make_run, reported_runs
from lightning_async.cli.compare.results import RunResult
from lightning_async.cli.compare.schema import LOGICAL_TIME, Axis, Comparison, MethodEntry, Panel

_STEP_KEYS = (
    "trainer.strategy.init_args.optimizer.init_args.lr",
    "optimizer.init_args.lr",
    "model.init_args.lr",
)


@dataclass(frozen=True)
class Line:
    """One method in one panel.

    Attributes:
        entry: The method.
        point: The grid point the reported runs took, None while it is undecided.
        step: The step size, None if the configuration does not show it.
        settings: The other searched values, by the last part of their key.
        at_edge: Searched names whose chosen value is the smallest or largest of its grid.
        runs: The reported runs by seed.
        outcomes: What is known of them; a seed that is missing has not been run.
        time: Mean time to target, or whatever was asked for in its place.
        speed: How many times less of it than the panel's first method needs, None for that method itself.
        final: Mean of the target's metric at the end.
    """

    entry: MethodEntry
    point: Point | None
    step: float | None
    settings: dict[str, float]
    at_edge: tuple[str, ...]
    runs: dict[int, Run]
    outcomes: dict[int, Outcome]
    time: Estimate
    speed: Estimate | None
    final: Estimate

    def count(self, status: str) -> int:
        """Returns how many of the runs have this status."""
        return sum(o.status == status for o in self.outcomes.values())

    @property
    def arrived(self) -> int:
        """How many of the runs reached the target."""
        return sum(o.arrived is not None for o in self.outcomes.values())


def summarize(
    comparison: Comparison, panel: Panel, results: Mapping[str, RunResult], axis: Axis = LOGICAL_TIME
) -> list[Line]:
    """Returns the lines of a panel's table, in the order of the file.

    Args:
        comparison: The comparison.
        panel: Which of its panels.
        results: Results of its runs by key.
        axis: What is measured until the target; a run that does not report it counts as not run.
    """
    lines: list[Line] = []
    for entry in panel.methods:
        point = chosen_point(comparison, entry, results)
        runs = {} if point is None else reported_runs(comparison, entry, point)
        outcomes = {
            seed: measured
            for seed, run in runs.items()
            if run.key in results and (measured := _outcome(comparison, run, results[run.key], axis)) is not None
        }
        settings, step = _settings(comparison, entry, point)
        lines.append(
            Line(
                entry=entry,
                point=point,
                step=step,
                settings=settings,
                at_edge=_at_edge(entry, point),
                runs=runs,
                outcomes=outcomes,
                time=mean_time(list(outcomes.values())),
                speed=speed_up(lines[0].outcomes, outcomes) if lines else None,
                final=mean_final(list(outcomes.values())),
            )
        )
    return lines


def _outcome(comparison: Comparison, run: Run, result: RunResult, axis: Axis) -> Outcome | None:
    result = on_grid(run, result, comparison.target)
    if axis == LOGICAL_TIME:
        return outcome(result, comparison.target, comparison.budget)
    if result.status == "failed":
        return outcome(result, comparison.target, 0.0)
    where = positions(result, axis)
    if not where:
        return None
    # Runs are given logical time. One that does not arrive needs more than it uses by the end of it; one that ended
    # before, as it diverged, would go on at its rate.
    used = where[-1] * max(1.0, comparison.budget / result.times[-1]) if result.times[-1] > 0 else where[-1]
    return outcome(result, comparison.target, used, where)


def _settings(comparison: Comparison, entry: MethodEntry, point: Point | None) -> tuple[dict[str, float], float | None]:
    if point is None:
        return {}, None
    config = make_run(comparison, entry, point, comparison.seeds[0], stop=False).config
    searched = {key.rsplit(".", 1)[-1]: value for key, value in point if full_key(key) not in _STEP_KEYS}
    return searched, step_size(config)


def step_size(config: Config) -> float | None:
    """Returns the step size of a run's configuration, None if it is not in any of the usual places."""
    for key in _STEP_KEYS:
        value = lookup(config, key)
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return float(value)
    return None


def _at_edge(entry: MethodEntry, point: Point | None) -> tuple[str, ...]:
    return tuple(
        key.rsplit(".", 1)[-1]
        for key, value in point or ()
        if len(entry.grid[key]) > 2 and value in (min(entry.grid[key]), max(entry.grid[key]))
    )
