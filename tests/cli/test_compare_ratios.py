"""Ratios between all methods: the numbers, the tables, the rows."""

import csv
import io
import math
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from scipy.stats import t, ttest_1samp

from lightning_async.cli.compare.measures import Outcome, speed_up
from lightning_async.cli.compare.plan import reported_runs
from lightning_async.cli.compare.ratio_tables import ratios_csv, ratios_latex, ratios_markdown, write_ratios
from lightning_async.cli.compare.ratios import ratio
from lightning_async.cli.compare.reading import load_comparison
from lightning_async.cli.compare.results import RunResult
from lightning_async.cli.compare.schema import Comparison
from lightning_async.student import student_quantile

Write = Callable[..., Path]


def at(*times: float | None) -> dict[int, Outcome]:
    return {seed: Outcome(time, 100.0, 0.9) for seed, time in enumerate(times)}


@pytest.mark.parametrize("freedom", [1, 2, 3, 7, 30, 101])
@pytest.mark.parametrize("probability", [0.5, 0.75, 0.975, 0.9995])
def test_the_quantile_is_students(probability: float, freedom: int) -> None:
    assert student_quantile(probability, freedom) == pytest.approx(t.ppf(probability, freedom), rel=1e-10, abs=1e-12)


@pytest.mark.parametrize(("probability", "freedom"), [(0.4, 3), (1.0, 3), (0.975, 0)])
def test_a_quantile_that_does_not_exist_is_refused(probability: float, freedom: int) -> None:
    with pytest.raises(ValueError, match="must be at least"):
        student_quantile(probability, freedom)


def test_the_interval_is_that_of_the_mean_of_paired_ratios() -> None:
    first, second = (60.0, 44.0, 50.0, 31.0), (30.0, 40.0, 25.0, 28.0)
    found = ratio(at(*first), at(*second))
    expected = ttest_1samp([a / b for a, b in zip(first, second, strict=True)], 0).confidence_interval(0.95)
    assert (found.low, found.high) == (pytest.approx(expected.low), pytest.approx(expected.high))


def test_a_ratio_is_the_speed_up_of_the_other_method() -> None:
    first, second = at(60.0, None), at(30.0, 40.0)
    assert ratio(first, second).estimate == speed_up(first, second)


@pytest.mark.parametrize(
    ("first", "second", "bound"),
    [((None, 50.0), (50.0, 25.0), ">"), ((50.0, 50.0), (None, 25.0), "<"), ((None, 50.0), (50.0, None), "?")],
)
def test_a_bound_has_no_interval(first: tuple[float | None, ...], second: tuple[float | None, ...], bound: str) -> None:
    found = ratio(at(*first), at(*second))
    assert found.estimate.bound == bound
    assert math.isnan(found.low)
    assert math.isnan(found.high)


def test_one_pair_has_no_interval() -> None:
    found = ratio(at(60.0, None), at(30.0, None))
    assert (found.estimate.mean, found.estimate.count) == (2.0, 1)
    assert math.isnan(found.low)


def finished(comparison: Comparison, times: Mapping[str, tuple[int | None, ...]]) -> dict[str, RunResult]:
    """Results in which every seed of a method arrives at a time, or never; a unit of time takes ten bits."""
    (panel,) = comparison.panels
    results = {}
    for entry in panel.methods:
        runs = reported_runs(comparison, entry, ()).values()
        for run, arrived in zip(runs, times.get(entry.name, ()), strict=False):
            steps = list(range(1, 21))
            values = [1.0 if arrived is None or step < arrived else 0.1 for step in steps]
            bits = {"bits_sent": [10.0 * step for step in steps]}
            results[run.key] = RunResult(
                "finished", [float(step) for step in steps], steps, values, {"val/loss": values}, bits
            )
    return results


def read(
    folder: Path, write_comparison: Write, methods: list[str], seeds: int = 2, axes: Mapping[str, str] | None = None
) -> Comparison:
    """A comparison of methods that are told apart by their step size."""
    (folder / "overlay.yaml").write_text("trainer: {strategy: {class_path: lightning_async.ParameterServerStrategy}}")
    entries = {
        name: {"config": "overlay.yaml", "label": name, "overrides": {"optimizer.init_args.lr": 0.1 + place}}
        for place, name in enumerate(methods)
    }
    target = {"metric": "val/loss", "value": 0.5, "mode": "min"}
    path = write_comparison(folder, methods=entries, seeds=list(range(seeds)), target=target, axes=dict(axes or {}))
    return load_comparison(path)


def test_a_cell_is_the_row_over_the_column(tmp_path: Path, write_comparison: Write) -> None:
    comparison = read(tmp_path, write_comparison, ["slow", "fast"])
    text = ratios_markdown(comparison, finished(comparison, {"slow": (12, 16), "fast": (6, 8)}))
    assert "| slow | 1 | 2.00 [2.00, 2.00] |\n| fast | 0.50 [0.50, 0.50] | 1 |\n" in text


def test_a_run_that_did_not_arrive_makes_the_cell_a_bound_with_its_pairs(
    tmp_path: Path, write_comparison: Write
) -> None:
    comparison = read(tmp_path, write_comparison, ["slow", "fast"])
    text = ratios_markdown(comparison, finished(comparison, {"slow": (None, None), "fast": (10, None)}))
    assert "| slow | 1 | > 2.00 (1 of 2 pairs) |" in text
    assert r"\< 0.50 (1 of 2 pairs)" in text


def test_every_axis_has_its_ratios(tmp_path: Path, write_comparison: Write) -> None:
    comparison = read(tmp_path, write_comparison, ["slow", "fast"], axes={"bits_sent": "bits"})
    results = finished(comparison, {"slow": (12, 12), "fast": (6, 8)})
    assert "In bits:\n\n|  | over slow | over fast |" in ratios_markdown(comparison, results)
    rows = list(csv.DictReader(io.StringIO(ratios_csv(comparison, results))))
    assert [row["axis"] for row in rows] == ["logical_time"] * 2 + ["bits_sent"] * 2


def test_a_row_holds_the_ratio_in_full(tmp_path: Path, write_comparison: Write) -> None:
    comparison = read(tmp_path, write_comparison, ["slow", "fast"], seeds=3)
    results = finished(comparison, {"slow": (12, 14, 15), "fast": (6, 9, 8)})
    row = next(csv.DictReader(io.StringIO(ratios_csv(comparison, results))))
    expected = ratio(at(12.0, 14.0, 15.0), at(6.0, 9.0, 8.0))
    assert (row["method"], row["over"], row["bound"], row["pairs"], row["seeds"]) == ("slow", "fast", "=", "3", "3")
    assert [float(row[name]) for name in ("ratio", "low", "high")] == [
        expected.estimate.mean,
        expected.low,
        expected.high,
    ]


def test_a_row_of_a_bound_has_no_interval_and_no_error(tmp_path: Path, write_comparison: Write) -> None:
    comparison = read(tmp_path, write_comparison, ["slow", "fast"])
    results = finished(comparison, {"slow": (None, 12), "fast": (6, 8)})
    row = next(csv.DictReader(io.StringIO(ratios_csv(comparison, results))))
    assert row["bound"] == ">"
    assert [row[name] for name in ("low", "high", "standard_error")] == ["", "", ""]


def test_of_many_methods_the_ratios_to_the_best_are_listed_in_their_order(
    tmp_path: Path, write_comparison: Write
) -> None:
    names = [f"m{place}" for place in range(9)]
    comparison = read(tmp_path, write_comparison, names, seeds=1)
    times = {name: (time,) for name, time in zip(names, (12, 8, 4, 20, 6, 10, 14, 16, None), strict=True)}
    results = finished(comparison, times)
    table = [line.split(" | ")[0] for line in ratios_markdown(comparison, results).splitlines() if "| m" in line]
    assert table == [f"| m{place}" for place in (2, 4, 1, 5, 0, 6, 7, 3, 8)]
    assert "only the ratios to the best one" in ratios_markdown(comparison, results)
    assert len(ratios_csv(comparison, results).splitlines()) == 1 + 9 * 8


def test_the_latex_tables_are_rectangular(tmp_path: Path, write_comparison: Write) -> None:
    comparison = read(tmp_path, write_comparison, ["slow_one", "fast"])
    text = ratios_latex(comparison, finished(comparison, {"slow_one": (12, 16), "fast": (6, 8)}))
    assert r"slow\_one" in text
    assert {line.count(" & ") for line in text.splitlines() if line.endswith(r"\\")} == {2}


def test_methods_without_runs_have_no_ratios(tmp_path: Path, write_comparison: Write) -> None:
    comparison = read(tmp_path, write_comparison, ["slow", "fast", "absent"])
    text = ratios_markdown(comparison, finished(comparison, {"slow": (12, 16), "fast": (6, 8)}))
    assert "absent" not in text


def test_one_method_alone_leaves_no_file(tmp_path: Path, write_comparison: Write) -> None:
    comparison = read(tmp_path, write_comparison, ["slow", "fast"])
    files = [tmp_path / f"ratios.{suffix}" for suffix in ("md", "tex", "csv")]
    write_ratios(comparison, finished(comparison, {"slow": (12, 16), "fast": (6, 8)}), tmp_path)
    assert all(file.read_text() for file in files)
    assert write_ratios(comparison, finished(comparison, {"slow": (12, 16)}), tmp_path) == ""
    assert not any(file.exists() for file in files)
