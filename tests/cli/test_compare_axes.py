import json
import math
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from lightning_async.cli.compare import workers
from lightning_async.cli.compare.axes import check_axes, figure_name, positions, scale
from lightning_async.cli.compare.configuration import ComparisonError
from lightning_async.cli.compare.history import History
from lightning_async.cli.compare.plan import reported_runs
from lightning_async.cli.compare.reading import load_comparison
from lightning_async.cli.compare.results import RunResult
from lightning_async.cli.compare.schema import LOGICAL_TIME, Axis
from lightning_async.cli.compare.summary import summarize
from lightning_async.cli.compare.tables import axis_cells
from lightning_async.cli.compare.workers import Event, Job
from lightning_async.cli.main import main
from tests.cli.stored import rows

Write = Callable[..., Path]
BITS = Axis("bits_sent", "bits")
CODING = {"code": "interval", "bits": 20, "quantizer": "dither", "decoder": "own", "partitions": 3}
AXES = {"steps": "updates", "bits_sent": "bits", "rounds": "merges"}
pytestmark = pytest.mark.xdist_group("comparison on axes")  # it is run once, by the process that looks at it


def run(**counters: list[float]) -> RunResult:
    return RunResult("finished", times=[0.0, 2.0, 4.0], steps=[0, 1, 3], train_loss=[0.7] * 3, counters=counters)


def test_time_and_steps_are_axes_of_every_run() -> None:
    assert positions(run(), LOGICAL_TIME) == [0.0, 2.0, 4.0]
    assert positions(run(), Axis("steps", "updates")) == [0.0, 1.0, 3.0]


def test_a_counter_is_zero_before_it_is_first_reported() -> None:
    assert positions(run(bits_sent=[math.nan, 80.0, 90.0]), BITS) == [0.0, 80.0, 90.0]


def test_a_run_that_does_not_report_the_quantity_has_no_place_on_its_axis() -> None:
    assert positions(run(kappa=[1.0, 2.0, 3.0]), BITS) == []


def test_a_quantity_that_falls_is_no_axis() -> None:
    with pytest.raises(ComparisonError, match=r"axes.kappa: it falls during a run"):
        positions(run(kappa=[0.0, 9.5, 9.2]), Axis("kappa", "kappa"))


def test_a_quantity_that_no_run_reports_is_named_with_those_that_are() -> None:
    with pytest.raises(ComparisonError, match=r"no run reports 'bit_sent'; did you mean 'bits_sent'\?"):
        check_axes([Axis("bit_sent", "bits")], [run(bits_sent=[0.0, 1.0, 2.0])])
    check_axes([BITS, Axis("steps", "updates")], [run(bits_sent=[0.0, 1.0, 2.0]), run()])


@pytest.mark.parametrize(
    ("values", "expected"),
    [([250.0], (1.0, "")), ([99_999.0], (1.0, "")), ([2e5, 3.0], (1e3, "10^3 ")), ([math.nan], (1.0, ""))],
)
def test_large_values_are_shown_in_powers_of_a_thousand(values: list[float], expected: tuple[float, str]) -> None:
    assert scale(values) == expected


def test_a_run_that_diverges_is_censored_at_what_it_would_have_used(tmp_path: Path, write_comparison: Write) -> None:
    comparison = load_comparison(write_comparison(tmp_path, budget=20, seeds=[0]))
    (panel,) = comparison.panels
    key = reported_runs(comparison, panel.methods[0], ())[0].key
    diverged = replace(run(bits_sent=[math.nan, 80.0, 160.0]), status="diverged", metrics={"val/loss": [9.0] * 3})
    (first, _) = summarize(comparison, panel, {key: diverged}, BITS)
    assert (first.time.mean, first.time.bound) == (160.0 * 20 / 4, ">")


def test_counters_survive_the_checkpoint_and_the_file() -> None:
    before, after = History(), History()
    before._counted = {"bits_sent": 8.0}
    before._append(1.0, 2, {"val/loss": 0.5})
    before._counted = {"bits_sent": 16.0}
    after.load_state_dict(before.state_dict())
    after._append(2.0, 4, {"val/loss": 0.4})
    assert after.counters == {"bits_sent": [8.0, 16.0]}
    result = run(bits_sent=[math.nan, 1.0, 2.0])
    again = RunResult.loads(result.dumps())
    assert math.isnan(again.counters["bits_sent"][0])
    assert again.counters["bits_sent"][1:] == [1.0, 2.0]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory, write_comparison: Write, configs: Path) -> tuple[Path, Path]:
    """Gradient coding, local training and a method without rounds, on three axes beside logical time."""
    folder = tmp_path_factory.mktemp("axes")
    for name, below, method, arguments in (
        ("coding", "asgd", "GradientCoding", CODING),
        ("loscar", "local_sgd", "LOSCAR", {"sparsity": 0.5, "compute_window": 2.0}),
    ):
        content = yaml.safe_load((configs / "methods" / f"{below}.yaml").read_text())
        strategy = content["trainer"]["strategy"]["init_args"]
        strategy["method"] = {"class_path": f"lightning_async.methods.{method}", "init_args": arguments}
        (folder / f"{name}.yaml").write_text(yaml.safe_dump(content))
    comparison = write_comparison(
        folder,
        seeds=[0, 1],
        budget=12,
        evaluate_every=2,
        target={"metric": "val/loss", "value": 3.5, "mode": "min"},
        axes=AXES,
        methods={"coding": {"config": "coding.yaml"}, "loscar": {"config": "loscar.yaml"}, "asgd": {}},
    )
    sys.path.insert(0, str(Path(__file__).parent))
    try:
        assert main(["compare", str(comparison), "--output", str(folder / "out"), "--jobs", "2"]) == 0
    finally:
        sys.path.pop(0)
    return comparison, folder / "out"


def result(folder: Path, row: dict[str, str]) -> dict[str, Any]:
    return dict(json.loads((folder / "runs" / row["run"] / "result.json").read_text()))


@pytest.mark.parametrize("method", ["coding", "loscar", "asgd"])
def test_bits_are_counted_up_to_every_evaluation(finished: tuple[Path, Path], method: str) -> None:
    for row in rows(finished[1]):
        if row["method"] == method:
            content = result(finished[1], row)
            bits = [value or 0.0 for value in content["counters"]["bits_sent"]]
            assert len(bits) == len(content["times"])
            assert bits == sorted(bits)
            assert bits[-1] == float(row["bits_sent_end"]) > 0
            assert int(row["steps"]) == float(row["steps_end"])


def test_the_place_of_arrival_is_that_of_the_evaluation_that_arrives(finished: tuple[Path, Path]) -> None:
    arrived = [row for row in rows(finished[1]) if row["method"] == "coding" and row["time_to_target"]]
    assert arrived
    for row in arrived:
        content = result(finished[1], row)
        place = content["times"].index(float(row["time_to_target"]))
        assert float(row["bits_sent_to_target"]) == content["counters"]["bits_sent"][place]


def test_tables_and_figures_are_written_for_every_axis(finished: tuple[Path, Path]) -> None:
    text = (finished[1] / "report.md").read_text()
    for unit, name in (("updates", "curves_steps"), ("bits", "curves_bits_sent"), ("merges", "curves_rounds")):
        assert f"In {unit}:" in text
        assert f"![Curves against {unit}]({name}.png)" in text
        assert (finished[1] / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    assert "| asgd | not reported |" in text.split("In merges:")[1]


def test_what_was_not_run_is_told_from_what_is_not_reported(tmp_path: Path, write_comparison: Write) -> None:
    comparison = load_comparison(write_comparison(tmp_path, seeds=[0]))
    (panel,) = comparison.panels
    key = reported_runs(comparison, panel.methods[0], ())[0].key
    results = {key: replace(run(), metrics={"val/loss": [9.0] * 3})}
    in_time, in_bits = (summarize(comparison, panel, results, axis) for axis in (LOGICAL_TIME, BITS))
    assert [row[1] for row in axis_cells(in_bits, BITS, in_time)[1]] == ["not reported", "not run"]


def test_another_axis_needs_no_run_anew(finished: tuple[Path, Path]) -> None:
    comparison, folder = finished
    before = {path: path.stat().st_mtime_ns for path in folder.glob("runs/*/result.json")}
    changed = comparison.with_name(comparison.name)
    content = yaml.safe_load(comparison.read_text())
    changed.write_text(yaml.safe_dump({**content, "axes": {"bits_sent": "bit"}}))
    try:
        assert main(["compare", str(changed), "--output", str(folder)]) == 0
    finally:
        comparison.write_text(yaml.safe_dump(content))
    assert {path: path.stat().st_mtime_ns for path in folder.glob("runs/*/result.json")} == before
    assert "In bit:" in (folder / "table.md").read_text()


@pytest.mark.parametrize(
    ("axes", "message"),
    [
        ({"logical_time": "time"}, "axes: logical_time is measured in any case"),
        ({"bits_sent": 3}, "axes.bits_sent: expected text, got 3"),
        (["bits_sent"], "axes: expected a mapping"),
    ],
)
def test_a_mistake_in_the_axes_is_named(
    tmp_path: Path, write_comparison: Write, axes: Any, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["compare", str(write_comparison(tmp_path, axes=axes)), "--output", str(tmp_path / "out")]) == 2
    assert message in capsys.readouterr().err


def test_figures_of_quantities_with_a_slash_have_a_name() -> None:
    assert figure_name(Axis("bytes/total", "bytes")) == "curves_bytes_total"


def test_an_axis_that_no_method_reports_stops_the_runs_once_every_method_has_one(
    tmp_path: Path, write_comparison: Write, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = []

    def one_after_the_other(
        next_jobs: Callable[[Any], dict[str, Job]], results: dict[str, RunResult], *_: Any
    ) -> Iterator[Event]:
        for key, job in next_jobs(results).items():
            made.append(job.name)
            results[key] = run()
            yield Event(key, 4.0, results[key])

    monkeypatch.setattr(workers, "run_all", one_after_the_other)
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    comparison = write_comparison(tmp_path, seeds=[0, 1, 2], budget=4, evaluate_every=2, axes={"bits_sent": "bits"})
    assert main(["compare", str(comparison), "--output", str(tmp_path / "out")]) == 2
    assert "no run reports 'bits_sent'" in capsys.readouterr().err
    assert made == ["all/asgd/seed 0", "all/asgd/seed 1", "all/asgd/seed 2", "all/minibatch_sgd/seed 0"]


def test_runs_of_some_methods_are_reported_without_the_axis_of_the_others(
    finished: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    output = tmp_path / "out"
    assert main(["compare", str(finished[0]), "--output", str(output), "--only", "asgd"]) == 0
    assert (output / "report.md").is_file()
    assert (output / "curves_bits_sent.png").exists()
    assert not (output / "curves_rounds.png").exists()
