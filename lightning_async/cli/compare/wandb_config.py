"""What Weights & Biases is told of a run beside the hyperparameters of its module, to group and average by."""

from __future__ import annotations

from collections.abc import Mapping

from lightning_async.cli.compare.configuration import Config
from lightning_async.cli.compare.plan import Point, Run, chosen_point, reported_runs, selected, tuning_runs
from lightning_async.cli.compare.results import RunResult
from lightning_async.cli.compare.schema import Comparison, MethodEntry, Panel
from lightning_async.cli.compare.summary import step_size


def wandb_configs(comparison: Comparison, results: Mapping[str, RunResult]) -> dict[str, Config]:
    """Returns the section `comparison` of the configuration of every known run, by the run's key.

    Its entries are named like columns of results.csv; a run that stands in several rows has the first.

    Args:
        comparison: The comparison.
        results: Results so far.
    """
    configs: dict[str, Config] = {}
    for panel, entry in selected(comparison, None):
        for point, runs in tuning_runs(comparison, entry).items():
            for seed, run in zip(comparison.tuning_seeds, runs, strict=True):
                configs.setdefault(run.key, _config(panel, entry, "tuning", point, seed, run))
        chosen = chosen_point(comparison, entry, results)
        if chosen is not None:
            for seed, run in reported_runs(comparison, entry, chosen).items():
                configs.setdefault(run.key, _config(panel, entry, "reported", chosen, seed, run))
    return configs


def _config(panel: Panel, entry: MethodEntry, kind: str, point: Point, seed: int, run: Run) -> Config:
    told: Config = {
        "panel": panel.name,
        "method": entry.name,
        "label": entry.label,
        "kind": kind,
        "step_size": step_size(run.config),
        # A dot in a name would be read as a section.
        "settings": {key.rsplit(".", 1)[-1]: value for key, value in point},
        "seed": seed,
    }
    return {"comparison": told}
