"""The rows of results.csv: which numbers are written with which digits."""

import csv
import io
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lightning_async.cli.compare.plan import reported_runs, tuning_runs
from lightning_async.cli.compare.reading import load_comparison
from lightning_async.cli.compare.results import RunResult
from lightning_async.cli.compare.rows import results_csv
from lightning_async.cli.compare.schema import Comparison

Write = Callable[..., Path]


@pytest.fixture(scope="module")
def comparison(tmp_path_factory: pytest.TempPathFactory, write_comparison: Write) -> Comparison:
    return load_comparison(write_comparison(tmp_path_factory.mktemp("rows"), seeds=[0]))


def row_of(comparison: Comparison, values: Sequence[float], times: Sequence[float] = ()) -> dict[str, str]:
    key = reported_runs(comparison, comparison.panels[0].methods[0], ())[0].key
    times = list(times) or [comparison.budget - place for place in reversed(range(len(values)))]
    result = RunResult("finished", times, list(range(len(values))), list(values), {"val/loss": list(values)})
    result.end_time = times[-1]
    return next(csv.DictReader(io.StringIO(results_csv(comparison, {key: result}))))


def test_a_metric_of_single_precision_is_written_with_its_own_digits(comparison: Comparison) -> None:
    assert row_of(comparison, [float(np.float32(0.1))] * 2)["final_metric"] == "0.1"


@given(st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=2, max_size=3))
def test_the_mean_of_single_precision_is_read_back_as_it_is_compared(
    comparison: Comparison, values: list[float]
) -> None:
    mean = sum(values[-2:]) / 2
    assert np.float32(float(row_of(comparison, values)["final_metric"])) == np.float32(mean)


def test_a_metric_of_double_precision_is_written_in_full(comparison: Comparison) -> None:
    final = float(row_of(comparison, [1 / 3, 2 / 7])["final_metric"])
    assert final == (1 / 3 + 2 / 7) / 2


def test_logical_times_are_written_in_full(comparison: Comparison) -> None:
    row = row_of(comparison, [0.1, 0.1], [0.1, 0.1 + 0.2])
    assert (float(row["time_to_target"]), float(row["end_time"])) == (0.1 + 0.2, 0.1 + 0.2)


def test_settings_of_a_grid_are_written_in_full(tmp_path: Path, write_comparison: Write) -> None:
    methods = {"clipped_asgd": {"grid": {"method.clip": [1 / 3, 4.0]}}}
    comparison = load_comparison(write_comparison(tmp_path, seeds=[0], methods=methods))
    runs = [run for (run,) in tuning_runs(comparison, comparison.panels[0].methods[0]).values()]
    result = RunResult("finished", [1.0], [1], [0.5], {"val/loss": [0.5]})
    text = results_csv(comparison, {run.key: replace(result) for run in runs})
    settings = [row["settings"] for row in csv.DictReader(io.StringIO(text)) if row["kind"] == "tuning"]
    assert settings == [f"clip={1 / 3!r}", "clip=4"]
