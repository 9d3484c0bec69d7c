"""The runs of a comparison: what is run, what fails, and what is refused before anything runs."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from lightning_async.cli.compare.execution import execute
from lightning_async.cli.compare.plan import known_runs
from lightning_async.cli.compare.reading import load_comparison
from lightning_async.cli.main import main
from tests.cli.conftest import RECIPE
from tests.cli.stored import results, rows

Write = Callable[..., Path]
OVERLAYS = Path(__file__).parents[2] / "configs" / "methods"


def test_failed_and_diverged_runs_are_shown_and_failed_ones_tried_again(
    tmp_path: Path, write_comparison: Write, capsys: pytest.CaptureFixture[str]
) -> None:
    methods = {
        "asgd": {"overrides": {"model.init_args.fail_at": 3}},
        "minibatch_sgd": {"overrides": {"model.init_args.factor": 1e30}},
    }
    comparison = write_comparison(tmp_path, seeds=[0], methods=methods)
    assert main(["compare", str(comparison), "--output", str(tmp_path / "out")]) == 1
    assert {row["method"]: row["status"] for row in rows(tmp_path / "out")} == {
        "asgd": "failed",
        "minibatch_sgd": "diverged",
    }
    report = (tmp_path / "out" / "report.md").read_text()
    assert "0 of 1 reached, 1 diverged" in report
    assert "no luck today" in report
    first = {path: path.stat().st_mtime_ns for path in (tmp_path / "out").glob("runs/*/result.json")}
    assert main(["compare", str(comparison), "--output", str(tmp_path / "out")]) == 1
    again = {path: path.stat().st_mtime_ns for path in (tmp_path / "out").glob("runs/*/result.json")}
    assert sum(again[path] != first[path] for path in first) == 1


def test_a_report_without_a_curve_names_no_figure(tmp_path: Path, write_comparison: Write) -> None:
    overrides = {"model.class_path": "tiny_recipe.NotMeasurable"}
    comparison = write_comparison(tmp_path, seeds=[0], methods={"asgd": {}}, overrides=overrides)
    assert main(["compare", str(comparison), "--output", str(tmp_path / "out")]) == 1
    report = (tmp_path / "out" / "report.md").read_text()
    assert "## Results" in report
    assert "curves" not in report


@pytest.mark.parametrize(
    ("jobs", "mistake", "key"),
    [
        ("1", {"target": {"metric": "val/los", "value": 0.5, "mode": "min"}}, "target.metric"),
        ("2", {"loss": "val/los"}, "loss"),
    ],
)
def test_a_metric_that_is_not_logged_ends_the_comparison_at_the_first_evaluation(
    tmp_path: Path,
    write_comparison: Write,
    capsys: pytest.CaptureFixture[str],
    jobs: str,
    mistake: dict[str, Any],
    key: str,
) -> None:
    comparison = write_comparison(tmp_path, **mistake)
    command = ["compare", str(comparison), "--output", str(tmp_path / "out"), "--jobs", jobs]
    assert main(command) == 2
    told = capsys.readouterr().err
    assert f": {key}: validation does not log 'val/los'; did you mean 'val/loss'? (known: val/loss). " in told
    assert told.count("\n") == 1
    assert len(list((tmp_path / "out").glob("runs/*"))) <= int(jobs)
    assert not results(tmp_path / "out")

    write_comparison(tmp_path)
    assert main(command) == 0
    assert len(results(tmp_path / "out")) == 4


def test_what_had_finished_before_a_metric_is_not_logged_is_kept(tmp_path: Path, write_comparison: Write) -> None:
    other = {"overrides": {"model.class_path": "tiny_recipe.OtherNames"}}
    comparison = write_comparison(tmp_path, seeds=[0], methods={"asgd": {}, "minibatch_sgd": other})
    command = ["compare", str(comparison), "--output", str(tmp_path / "out"), "--extend"]
    assert main(command) == 2
    (finished,) = (tmp_path / "out").glob("runs/*/result.json")
    before = finished.stat().st_mtime_ns

    write_comparison(tmp_path, seeds=[0], methods={"asgd": {}, "minibatch_sgd": {}})
    assert main(command) == 0
    assert finished.stat().st_mtime_ns == before
    assert len(results(tmp_path / "out")) == 2


def test_a_configuration_that_cannot_be_built_stops_the_comparison_before_it_starts(
    tmp_path: Path, write_comparison: Write, capsys: pytest.CaptureFixture[str]
) -> None:
    methods = {"asgd": None, "clipped_asgd": {"overrides": {"method.clip": -1.0}}}
    comparison = write_comparison(tmp_path, methods=methods)
    assert main(["compare", str(comparison), "--output", str(tmp_path / "out")]) == 2
    message = capsys.readouterr().err
    assert "all/clipped_asgd" in message
    assert "clip" in message
    assert not list((tmp_path / "out").glob("runs/*"))


@pytest.mark.parametrize(
    ("name", "steps"),
    [("loscar", 30), ("loscar_blocking", 15), ("loscar_overwrite", 30), ("local_sgd", 15), ("diloco", 15)],
)
def test_every_replica_method_runs_on_the_cluster_of_the_comparison(
    tmp_path: Path, write_comparison: Write, name: str, steps: int
) -> None:
    overlay = OVERLAYS / f"{name}.yaml"
    cluster = {
        "times": {"class_path": "lightning_async.simulation.FixedTimes", "init_args": {"times": [1.0, 2.0]}},
        "link": {"class_path": "lightning_async.simulation.Link", "init_args": {"latency": 2.0}},
    }
    dense = {"method.sparsity": 1.0} if name.startswith("loscar") else {}
    methods = {name: {"config": str(overlay), "overrides": {"method.compute_window": 2.0, **dense}}}
    comparison = load_comparison(write_comparison(tmp_path, seeds=[0], cluster=cluster, methods=methods))
    (run,) = known_runs(comparison, {}).values()
    result = execute(run, tmp_path / "run", checkpoint_every=60.0, report=lambda _: None)
    assert (result.status, result.error) == ("finished", "")
    # Rounds of 2 + 2 units: 3 local steps before the message, 3 more while it travels.
    assert (result.end_time, result.steps[-1]) == (20.0, steps)


STRATEGY = "trainer.strategy.init_args"


def own(module: str, **arguments: Any) -> dict[str, Any]:
    """A module of the tiny recipe's that brings its own optimizer."""
    return {"overrides": {"model": {"class_path": f"tiny_recipe.{module}", "init_args": arguments}, "optimizer": None}}


NEVER = {
    "class_path": "lightning_async.simulation.FixedTimes",
    "init_args": {"times": [float("inf"), float("inf")]},
}


SLOW = {"class_path": "lightning_async.simulation.FixedTimes", "init_args": {"times": [30.0, 40.0]}}


FAR = {
    "times": {"class_path": "lightning_async.simulation.FixedTimes", "init_args": {"times": [1.0, 1.0]}},
    "link": {"class_path": "lightning_async.simulation.Link", "init_args": {"latency": 30.0}},
}


NOBODY = {"class_path": "lightning_async.simulation.TwoSpeedTimes", "init_args": {"num_workers": 0, "slowdown": 2.0}}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"overrides": {"trainer.accumulate_grad_batches": 2}}, "accumulate_grad_batches=2 cannot be combined"),
        ({"overrides": {"trainer.limit_val_batches": 0}}, "trainer.limit_val_batches is 0"),
        ({"cluster": {"times": SLOW}}, "the first step of ASGD is at logical time 30, after the budget 20"),
        ({"cluster": FAR, "methods": {"local_sgd": None}}, "the first round of LocalSGD ends at logical time 32"),
        ({"cluster": {"times": NEVER}}, "all/asgd/seed 0: the configuration is not usable: "),
        ({"cluster": {"times": NOBODY}}, "not usable: cluster.times.num_workers must be at least 1, got 0\n"),
        ({"overrides": {"model.init_args.factor": "long"}}, "not usable: model.factor: expected float, got 'long'\n"),
        (
            {"methods": {"asgd": {"overrides": {f"{STRATEGY}.method": {"class_path": "LocalSGD"}}}}},
            "not usable: method: 'LocalSGD' is no Method: LocalSGDStrategy takes it, ParameterServerStrategy one of ",
        ),
        (
            {"methods": {"asgd": {"overrides": {f"{STRATEGY}.partition": {"class_path": "Dirichle"}}}}},
            "not usable: partition: there is no Partition 'Dirichle'; did you mean 'Dirichlet'?",
        ),
        (
            {"methods": {"local_sgd": {"overrides": {"method.compute_windw": 1.0}}}},
            "not usable: method: LocalSGD takes no 'compute_windw'; did you mean 'compute_window'?",
        ),
        (
            {"methods": {"muon": {"config": str(OVERLAYS / "ringmaster_muon.yaml")}}, **own("Scheduled")},
            "returns a scheduler, which belongs to the opt",
        ),
        (own("AllFrozen"), "no parameter of AllFrozen is trainable"),
        ({"overrides": {"trainer.nope": 1}}, "not usable: Group 'trainer' does not accept option 'nope'\n"),
    ],
)
def test_what_no_run_could_do_is_refused_in_a_line_before_any_run(
    tmp_path: Path,
    write_comparison: Write,
    capsys: pytest.CaptureFixture[str],
    changes: dict[str, Any],
    message: str,
) -> None:
    comparison = write_comparison(tmp_path, **changes)
    assert main(["compare", str(comparison), "--output", str(tmp_path / "out")]) == 2
    told = capsys.readouterr().err
    assert message in told
    assert told.count("\n") == 1
    assert not list((tmp_path / "out").glob("runs/*"))


def test_a_module_that_needs_its_data_to_make_its_scheduler_is_not_refused(
    tmp_path: Path, write_comparison: Write
) -> None:
    changes = own("Scheduled", by_data=True)
    comparison = write_comparison(tmp_path, seeds=[0], methods={"asgd": None}, **changes)
    assert main(["compare", str(comparison), "--output", str(tmp_path / "out")]) == 0
    assert [row["status"] for row in rows(tmp_path / "out")] == ["finished"]


@pytest.mark.parametrize("key", ["optimizer.lr", "optimizer.init_args.lr"])
def test_a_step_size_for_the_optimizer_of_the_module_is_refused_with_where_to_give_it(
    tmp_path: Path, write_comparison: Write, capsys: pytest.CaptureFixture[str], key: str
) -> None:
    recipe = {name: value for name, value in RECIPE.items() if name != "optimizer"}
    (tmp_path / "own.yaml").write_text(yaml.safe_dump(recipe))
    methods = {"asgd": {"grid": {key: ["2^-4", "2^-3"]}}}
    comparison = write_comparison(tmp_path, recipe="own.yaml", methods=methods)
    assert main(["compare", str(comparison), "--output", str(tmp_path / "out")]) == 2
    assert capsys.readouterr().err.endswith(
        "not usable: optimizer: there is no 'lr' to set, for the recipe has no optimizer of its own: give "
        "model.<argument> if the module takes one, or add optimizer: {class_path: ..., init_args: ...} to the recipe\n"
    )


def test_only_leaves_out_what_has_not_run_and_says_so(
    tmp_path: Path, write_comparison: Write, capsys: pytest.CaptureFixture[str]
) -> None:
    comparison = write_comparison(tmp_path, seeds=[0])
    command = ["compare", str(comparison), "--output", str(tmp_path / "out")]
    assert main([*command, "--only", "asgd"]) == 0
    assert len(results(tmp_path / "out")) == 1
    assert not {"Mini-batch", "not run"} & words(tmp_path / "out" / "table.md")
    note = "Left out, as --only does not name them and they have not run: minibatch_sgd."
    for told in (capsys.readouterr().out, (tmp_path / "out" / "report.md").read_text()):
        assert told.count("minibatch_sgd") == told.count(note) == 1

    assert main(command) == 0
    capsys.readouterr()
    assert main([*command, "--only", "asgd"]) == 0
    assert "Mini-batch" in words(tmp_path / "out" / "table.md")
    assert "Left out" not in capsys.readouterr().out


def words(file: Path) -> set[str]:
    return {cell.strip() for line in file.read_text().splitlines() for cell in line.split("|")}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--only", "asdg"], "did you mean 'asgd'"),
        (["--jobs", "0"], "at least 1"),
        (["--jobs", "x"], "expected an integer of at least 1 (and at most 1000), got 'x'"),
        (["--checkpoint-every", "nan"], "expected seconds, positive and at most a year, got 'nan'"),
        (["--checkpoint-every", "-1"], "got '-1'"),
        (["--output", f"{__file__}/out"], "cannot be made or written: Not a directory; choose another folder"),
    ],
)
def test_mistakes_on_the_command_line_are_named(
    tmp_path: Path, write_comparison: Write, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    command = ["compare", str(write_comparison(tmp_path)), "--output", str(tmp_path / "out"), *arguments]
    try:
        status: object = main(command)
    except SystemExit as error:
        status = error.code
    assert status == 2
    assert message in capsys.readouterr().err
