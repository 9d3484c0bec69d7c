"""One CSV row for every run of a comparison."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping

import numpy as np

from lightning_async.cli.compare.axes import positions
from lightning_async.cli.compare.holding import on_grid
from lightning_async.cli.compare.measures import outcome
from lightning_async.cli.compare.plan import Run, planned_runs
from lightning_async.cli.compare.results import RunResult
from lightning_async.cli.compare.schema import Comparison, Target
from lightning_async.cli.compare.summary import step_size


def results_csv(comparison: Comparison, results: Mapping[str, RunResult]) -> str:
    """Returns one row per run, those of the grids included; `time_to_target` is empty where the target was missed.

    Times and counts are written in full. The final metric has the digits of single precision if that is what it was
    logged in, which is also how it is compared to the target.
    """
    columns = [
        *("panel", "method", "kind", "step_size", "settings", "seed", "status", "time_to_target", "budget"),
        *("final_metric", "end_time", "steps", "wall_seconds", "data", "run", "error"),
        *(f"{axis.quantity}_{what}" for axis in comparison.axes for what in ("to_target", "end")),
    ]
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    for panel, entry, kind, point, seed, run in planned_runs(comparison, results):
        if run.key in results:
            writer.writerow(
                {
                    "panel": panel.name,
                    "method": entry.name,
                    "kind": kind,
                    "settings": " ".join(f"{key.rsplit('.', 1)[-1]}={_in_full(value)}" for key, value in point),
                    "seed": seed,
                    **_row(comparison, run, on_grid(run, results[run.key], comparison.target)),
                }
            )
    return text.getvalue()


def _row(comparison: Comparison, run: Run, result: RunResult) -> dict[str, object]:
    measured = outcome(result, comparison.target, comparison.budget)
    step = step_size(run.config)
    return {
        "step_size": "" if step is None else step,
        "status": result.status,
        "time_to_target": "" if measured.arrived is None else measured.arrived,
        "budget": measured.budget,
        "final_metric": _final(comparison.target, result, measured.final) if math.isfinite(measured.final) else "",
        "end_time": result.end_time,
        "steps": result.steps[-1] if result.steps else "",
        "wall_seconds": round(result.wall_seconds, 3),
        "data": result.data,
        "run": run.key,
        "error": result.error.strip().rsplit("\n", 1)[-1],
        **_axis_columns(comparison, result),
    }


def _axis_columns(comparison: Comparison, result: RunResult) -> dict[str, object]:
    columns: dict[str, object] = {}
    for axis in comparison.axes:
        where = positions(result, axis)
        if where:
            arrived = outcome(result, comparison.target, where[-1], where).arrived
            columns[f"{axis.quantity}_to_target"] = "" if arrived is None else arrived
            columns[f"{axis.quantity}_end"] = where[-1]
    return columns


def _in_full(value: float) -> str:
    text = f"{value:g}"
    return text if float(text) == value else repr(value)


def _final(target: Target, result: RunResult, mean: float) -> float:
    with np.errstate(over="ignore"):
        single = all(float(np.float32(value)) == value for value in result.metrics[target.metric][-target.window :])
        # The fewest digits from which single precision is read back: 0.1, not 0.10000000149011612.
        return float(str(np.float32(mean))) if single else mean
