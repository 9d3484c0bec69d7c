"""Which runs a comparison consists of, and which step of a grid its reported runs take."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Literal, NamedTuple, TypeAlias, cast

import yaml  # type: ignore[import-untyped]

from lightning_async.cli.compare.configuration import Config, Value, expand, fingerprint, merge
from lightning_async.cli.compare.holding import on_grid
from lightning_async.cli.compare.measures import Outcome, better_point, outcome
from lightning_async.cli.compare.results import RunResult
from lightning_async.cli.compare.schema import Comparison, MethodEntry, Panel

Point: TypeAlias = "tuple[tuple[str, float], ...]"
"""One element of a grid: dotted keys and their values, in the order of the file."""

_OWN_CALLBACKS = ("LogicalTimeLimit", "ValidateEvery", "TimeToTarget")


@dataclass(frozen=True)
class Run:
    """One training run, completely described.

    Attributes:
        config: A whole LightningCLI configuration, with the limit and the evaluations as callbacks.
        stop: Target at which the run ends, None to use the whole budget.
        watch: The metric of the target and the loss, whose first non-finite value ends the run as diverged.
        budget: Logical time the run may use (which is in `config` as well).
        evaluate_every: Logical time between two evaluations (which is in `config` as well).
    """

    config: Config
    stop: Config | None
    watch: tuple[str, str]
    budget: float
    evaluate_every: float

    @cached_property
    def key(self) -> str:
        """Name of the run's folder: the hash of everything that determines its result."""
        return fingerprint({"config": self.config, "stop": self.stop, "watch": list(self.watch)})

    def yaml(self) -> str:
        """Returns the configuration as a file that `lightning-async fit --config` takes."""
        return str(yaml.safe_dump(self.config, sort_keys=False))


Results: TypeAlias = "Mapping[str, RunResult]"
"""Finished runs by key."""


def make_run(comparison: Comparison, entry: MethodEntry, point: Point, seed: int, *, stop: bool) -> Run:
    """Puts one run's configuration together: recipe, method, grid point, cluster, seed, limit.

    The cluster is the panel's and its seed the comparison's, so that all methods meet the same worker times. The run is
    put together once, and must not be changed.
    """
    which = id(entry), point, seed, stop
    if which not in comparison.made:
        comparison.made[which] = _put_together(comparison, entry, point, seed, stop=stop)
    return cast("Run", comparison.made[which])


def _put_together(comparison: Comparison, entry: MethodEntry, point: Point, seed: int, *, stop: bool) -> Run:
    config = merge(merge(comparison.recipe, entry.config), expand(dict(point), "grid"))
    seeded = {
        "cluster": {
            "class_path": "lightning_async.SimulatedCluster",
            "init_args": {**entry.cluster, "seed": seed},
        },
        "seed": seed,
    }
    trainer = cast("Config", config["trainer"])
    strategy = cast("Config", trainer["strategy"])
    arguments: Config = {**cast("Config", strategy.get("init_args") or {}), **cast("Config", seeded)}
    config["seed_everything"] = seed
    config["trainer"] = {
        **trainer,
        "strategy": {**strategy, "init_args": arguments},
        "callbacks": [*_foreign(trainer.get("callbacks")), *_limits(comparison)],
        # The budget is the only limit: two limits end a resumed run early.
        "max_epochs": -1,
        "max_steps": -1,
        "max_time": None,
        "check_val_every_n_epoch": None,
        "val_check_interval": 1,
        "logger": False,
        "num_sanity_val_steps": 0,
        "enable_progress_bar": False,
        "enable_model_summary": False,
        "enable_checkpointing": True,
    }
    target = cast("Config", asdict(comparison.target)) if stop else None
    watch = (comparison.target.metric, comparison.loss)
    return Run(config, target, watch, comparison.budget, comparison.evaluate_every)


def _foreign(callbacks: Value) -> list[Value]:
    listed = callbacks if isinstance(callbacks, list) else [] if callbacks is None else [callbacks]

    def class_name(callback: Value) -> str:
        path = callback.get("class_path") if isinstance(callback, dict) else callback
        return str(path).rsplit(".", 1)[-1]

    return [c for c in listed if class_name(c) not in _OWN_CALLBACKS]


def _limits(comparison: Comparison) -> list[Value]:
    return [
        {
            "class_path": "lightning_async.callbacks.ValidateEvery",
            "init_args": {"logical_time": comparison.evaluate_every},
        },
        {"class_path": "lightning_async.callbacks.LogicalTimeLimit", "init_args": {"time": comparison.budget}},
    ]


def grid_points(entry: MethodEntry) -> list[Point]:
    """Returns the Cartesian product of the method's grid; one empty point if it has none."""
    keys = list(entry.grid)
    return [tuple(zip(keys, values, strict=True)) for values in itertools.product(*entry.grid.values())]


def tuning_runs(comparison: Comparison, entry: MethodEntry) -> dict[Point, list[Run]]:
    """Returns the runs that decide between the points of the method's grid; none if there is nothing to decide."""
    points = grid_points(entry)
    if len(points) == 1:
        return {}
    return {p: [make_run(comparison, entry, p, s, stop=True) for s in comparison.tuning_seeds] for p in points}


def tuning_outcomes(comparison: Comparison, entry: MethodEntry, results: Results) -> dict[Point, list[Outcome]]:
    """Returns what is known of the method's grid so far."""
    target = comparison.target

    def measured(run: Run) -> Outcome:
        return outcome(on_grid(run, results[run.key], target), target, comparison.budget)

    return {
        point: [measured(run) for run in runs if run.key in results]
        for point, runs in tuning_runs(comparison, entry).items()
    }


def inert_keys(comparison: Comparison, entry: MethodEntry, results: Results) -> list[str]:
    """Returns the keys of a grid whose points all came out the same in everything that was measured."""
    points = [
        [results[r.key].metrics for r in runs if r.key in results] for runs in tuning_runs(comparison, entry).values()
    ]
    same = len(points) > 1 and any(points[0]) and all(point == points[0] for point in points)
    return list(entry.grid) if same else []


def chosen_point(comparison: Comparison, entry: MethodEntry, results: Results) -> Point | None:
    """Returns the point the reported runs take, None while runs of the grid are missing."""
    runs = tuning_runs(comparison, entry)
    if not runs:
        return grid_points(entry)[0]
    if any(r.key not in results for point in runs.values() for r in point):
        return None
    return better_point(tuning_outcomes(comparison, entry, results), comparison.target)


def reported_runs(comparison: Comparison, entry: MethodEntry, point: Point) -> dict[int, Run]:
    """Returns the runs that the table shows, by seed."""
    stop = comparison.stop_at_target
    return {seed: make_run(comparison, entry, point, seed, stop=stop) for seed in comparison.seeds}


class PlannedRun(NamedTuple):
    """A run, and where it stands; one that two panels share stands twice."""

    panel: Panel
    entry: MethodEntry
    kind: Literal["tuning", "reported"]
    point: Point
    seed: int
    run: Run


def known_runs(comparison: Comparison, results: Results, only: frozenset[str] | None = None) -> dict[str, Run]:
    """Returns every run that is certain to be needed, given the results so far; grows as grids complete.

    Args:
        comparison: The comparison.
        results: Results so far.
        only: Names of methods or panels to restrict the runs to.
    """
    return {planned.run.key: planned.run for planned in planned_runs(comparison, results, only)}


def run_names(comparison: Comparison, results: Results) -> dict[str, str]:
    """Returns a readable name, panel/method/point/seed, for the key of every known run."""
    names: dict[str, str] = {}
    for panel, entry, kind, point, seed, run in planned_runs(comparison, results):
        label = " ".join(f"{key.rsplit('.', 1)[-1]}={value:g}" for key, value in point)
        tuned = [label] if kind == "tuning" else []
        names.setdefault(run.key, "/".join([panel.name, entry.name, *tuned, f"seed {seed}"]))
    return names


def all_methods_ran(comparison: Comparison, results: Results) -> bool:
    """Returns whether there is a result with an evaluation of every method of every panel."""
    ran = {
        (planned.panel.name, planned.entry.name)
        for planned in planned_runs(comparison, results)
        if planned.run.key in results and results[planned.run.key].times
    }
    return all((panel.name, entry.name) in ran for panel, entry in selected(comparison, None))


def planned_runs(comparison: Comparison, results: Results, only: frozenset[str] | None = None) -> Iterator[PlannedRun]:
    """Yields every known run wherever it stands: panel by panel, method by method, the runs of its grid first."""
    for panel, entry in selected(comparison, only):
        for point, runs in tuning_runs(comparison, entry).items():
            for seed, run in zip(comparison.tuning_seeds, runs, strict=True):
                yield PlannedRun(panel, entry, "tuning", point, seed, run)
        chosen = chosen_point(comparison, entry, results)
        if chosen is not None:
            for seed, run in reported_runs(comparison, entry, chosen).items():
                yield PlannedRun(panel, entry, "reported", chosen, seed, run)


def selected(comparison: Comparison, only: frozenset[str] | None) -> Iterator[tuple[Panel, MethodEntry]]:
    """Yields the methods of every panel, restricted to the names of methods or panels in `only`."""
    for panel in comparison.panels:
        for entry in panel.methods:
            if only is None or only & {panel.name, entry.name, f"{panel.name}/{entry.name}"}:
                yield panel, entry


def without_left_out(
    comparison: Comparison, results: Results, only: frozenset[str] | None
) -> tuple[Comparison, list[str]]:
    """Returns the comparison without the methods that `only` does not name and that have not run, and their names."""
    chosen = {(panel.name, entry.name) for panel, entry in selected(comparison, only)}
    panels, left_out = [], []
    for panel in comparison.panels:
        kept = tuple(
            entry
            for entry in panel.methods
            if (panel.name, entry.name) in chosen or _any_reported(comparison, entry, results)
        )
        if kept:
            panels.append(replace(panel, methods=kept))
            prefix = f"{panel.name}/" if len(comparison.panels) > 1 else ""
            left_out += [f"{prefix}{entry.name}" for entry in panel.methods if entry not in kept]
        else:
            left_out.append(panel.name)
    return replace(comparison, panels=tuple(panels)), left_out


def _any_reported(comparison: Comparison, entry: MethodEntry, results: Results) -> bool:
    point = chosen_point(comparison, entry, results)
    return point is not None and any(r.key in results for r in reported_runs(comparison, entry, point).values())


def undecided_runs(comparison: Comparison, results: Results, only: frozenset[str] | None = None) -> int:
    """Returns how many runs wait for a grid to complete."""
    waiting = [e for _, e in selected(comparison, only) if chosen_point(comparison, e, results) is None]
    return len(waiting) * len(comparison.seeds)


def comparison_identity(comparison: Comparison) -> Config:
    """Returns what makes two comparisons the same: everything that decides which runs there are."""
    methods: Config = {
        f"{panel.name}/{entry.name}": {
            "config": entry.config,
            "grid": cast("Config", entry.grid),
            **({"cluster": entry.cluster} if entry.cluster != comparison.cluster else {}),
        }
        for panel in comparison.panels
        for entry in panel.methods
    }
    return {
        "recipe": comparison.recipe,
        "cluster": comparison.cluster,
        "budget": comparison.budget,
        "evaluate_every": comparison.evaluate_every,
        "target": cast("Config", asdict(comparison.target)),
        "seeds": list(comparison.seeds),
        "tuning_seeds": list(comparison.tuning_seeds),
        "loss": comparison.loss,
        "stop_at_target": comparison.stop_at_target,
        "methods": methods,
    }
