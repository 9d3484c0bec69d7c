"""What Weights & Biases is told of a run beside the hyperparameters of its module, to group and average by."""

from __future__ import annotations

from collections.abc import Mapping

from lightning_async.cli.compare.configuration import Config
from lightning_async.cli.compare.plan import planned_runs
from lightning_async.cli.compare.results import RunResult
from lightning_async.cli.compare.schema import Comparison
from lightning_async.cli.compare.summary import step_size


def wandb_configs(comparison: Comparison, results: Mapping[str, RunResult]) -> dict[str, Config]:
    """Returns the section `comparison` of the configuration of every known run, by the run's key.

    Its entries are named like columns of results.csv; a run that stands in several rows has the first.

    Args:
        comparison: The comparison.
        results: Results so far.
    """
    configs: dict[str, Config] = {}
    for panel, entry, kind, point, seed, run in planned_runs(comparison, results):
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
        configs.setdefault(run.key, {"comparison": told})
    return configs
