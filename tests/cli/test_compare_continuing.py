"""Interrupted runs of a comparison: which go on from their checkpoint, and what is said if one cannot."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from lightning_async.cli.compare.continuing import one_line
from lightning_async.cli.compare.execution import execute
from lightning_async.cli.compare.plan import Run, known_runs
from lightning_async.cli.compare.reading import load_comparison
from lightning_async.cli.compare.results import ResultFolder, RunResult
from lightning_async.cli.compare.sources import Sources
from lightning_async.cli.main import main
from tests.cli.stored import results

Write = Callable[..., Path]
MODEL = """
import torch
from tiny_recipe import TinyModule

class Model(TinyModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 1, bias={bias})
"""
CHANGED = Sources({"tiny_recipe.TinyModule": {"tiny_recipe": "as it was"}}, {})


@pytest.fixture
def run(tmp_path: Path, write_comparison: Write) -> Run:
    """The only run of a comparison."""
    return only_run(write_comparison(tmp_path, seeds=[0], methods={"asgd": {}}, budget=4))


def only_run(comparison: Path) -> Run:
    (run,) = known_runs(load_comparison(comparison), {}).values()
    return run


def trained(run: Run, folder: Path, seconds: float = 60.0) -> RunResult:
    return execute(run, folder, checkpoint_every=seconds, report=lambda _: None)


def interrupted(run: Run, folder: Path) -> RunResult:
    """Leaves a checkpoint of a million seconds of training; returns the whole result."""
    result = trained(run, folder, 1e-6)
    content = torch.load(folder / "resume.ckpt", weights_only=False)
    (history,) = (state for name, state in content["callbacks"].items() if name.startswith("History"))
    history["wall_seconds"] = 1e6
    torch.save(content, folder / "resume.ckpt")
    return result


def test_an_interrupted_run_goes_on_while_its_code_is_the_same(tmp_path: Path, run: Run) -> None:
    interrupted(run, tmp_path)
    assert trained(run, tmp_path).wall_seconds > 1e6


def test_an_interrupted_run_whose_code_has_changed_is_begun_anew(
    tmp_path: Path, run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = interrupted(run, tmp_path)
    now = Sources.read(tmp_path)
    CHANGED.write(tmp_path)
    again = trained(run, tmp_path)
    assert again.wall_seconds < 1e6
    assert (again.times, again.metrics) == (whole.times, whole.metrics)
    assert "resume.ckpt is removed, and the run starts afresh" in capsys.readouterr().out
    assert Sources.read(tmp_path) == now


def test_a_comparison_says_which_runs_begin_anew_and_they_have_the_new_code_throughout(
    tmp_path: Path, write_comparison: Write, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code = tmp_path / "code" / f"model_of_{tmp_path.name}.py"
    code.parent.mkdir()
    code.write_text(MODEL.format(bias=True))
    monkeypatch.syspath_prepend(str(code.parent))
    comparison = write_comparison(
        tmp_path, seeds=[0], methods={"asgd": {}}, budget=4, overrides={"model.class_path": f"{code.stem}.Model"}
    )
    run = only_run(comparison)
    trained(run, tmp_path / "begun", 1e-6)
    code.write_text(MODEL.format(bias=False))
    command = ["compare", str(comparison), "--output", str(tmp_path / "out")]
    assert main(command) == 0
    expected = curves(tmp_path / "out")
    assert "code has changed" not in capsys.readouterr().err

    folder = ResultFolder(tmp_path / "out").run_folder(run.key)
    (folder / "result.json").unlink()
    for name in ("resume.ckpt", "sources.json"):
        (tmp_path / "begun" / name).rename(folder / name)
    assert main(command) == 0
    assert curves(tmp_path / "out") == expected
    told = capsys.readouterr().err
    assert "interrupted runs whose code has changed are begun anew, and what they had done is dropped:\n" in told
    assert f"  {code.stem}.Model, in {code}: all/asgd\n" in told
    assert "used as they are" not in told
    assert "code has changed" not in (tmp_path / "out" / "report.md").read_text()


def curves(output: Path) -> list[object]:
    return [(result["times"], result["metrics"]) for result in results(output).values()]


def test_an_interrupted_run_that_is_not_started_is_not_named(
    tmp_path: Path, write_comparison: Write, capsys: pytest.CaptureFixture[str]
) -> None:
    comparison = write_comparison(tmp_path, seeds=[0], budget=4)
    command = ["compare", str(comparison), "--output", str(tmp_path / "out"), "--only", "minibatch_sgd"]
    assert main(command) == 0
    run = next(iter(known_runs(load_comparison(comparison), {}).values()))
    folder = ResultFolder(tmp_path / "out").run_folder(run.key)
    trained(run, folder, 1e-6)
    CHANGED.write(folder)
    assert main(command) == 0
    assert "begun anew" not in capsys.readouterr().err
    assert (folder / "resume.ckpt").is_file()


def test_a_run_that_cannot_go_on_says_so_in_a_line_and_what_to_delete(tmp_path: Path, run: Run) -> None:
    trained(run, tmp_path / "run", 1e-6)
    checkpoint = tmp_path / "run" / "resume.ckpt"
    content = torch.load(checkpoint, weights_only=False)
    content["state_dict"] = {"layer.weight": torch.ones(2, 7), "layer.bias": torch.ones(2)}
    torch.save(content, checkpoint)
    result = trained(run, tmp_path / "run")
    assert result.status == "failed"
    assert result.error.splitlines()[-1] == (
        f"The run was interrupted before, and could not go on from {checkpoint} (delete it to begin the run anew): "
        "RuntimeError: Error(s) in loading state_dict for TinyModule: size mismatch for layer.weight: copying a param "
        "with shape torch.Size([2, 7]) from checkpoint, the shape in current model is torch.Size([1, 4]). ..."
    )
    checkpoint.unlink()
    assert trained(run, tmp_path / "run").status == "finished"


def test_what_fails_after_a_run_has_gone_on_does_not_blame_its_checkpoint(
    tmp_path: Path, write_comparison: Write
) -> None:
    overrides = {"model.init_args.fail_at": 4}
    run = only_run(write_comparison(tmp_path, seeds=[0], methods={"asgd": {}}, overrides=overrides))
    for _ in range(2):
        result = trained(run, tmp_path / "run", 1e-6)
        assert (tmp_path / "run" / "resume.ckpt").is_file()
        assert result.error.splitlines()[-1] == "RuntimeError: no luck today"


@pytest.mark.parametrize(
    ("message", "told"),
    [
        ("no luck", "ValueError: no luck"),
        ("Errors:\n\tone", "ValueError: Errors: one"),
        ("Errors:\n\tone\n\ttwo\n", "ValueError: Errors: one ..."),
        ("", "ValueError"),
    ],
)
def test_an_error_is_told_in_one_line_without_tabs(message: str, told: str) -> None:
    assert one_line(ValueError(message)) == told
