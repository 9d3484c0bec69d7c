"""What other processes do with the runs of a comparison: when they are killed, when they are stopped, and W&B's."""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from lightning_async.cli.compare.execution import execute
from lightning_async.cli.compare.plan import known_runs
from lightning_async.cli.compare.reading import load_comparison
from lightning_async.cli.compare.results import ResultFolder
from lightning_async.cli.compare.workers import Job, run_all
from lightning_async.cli.main import main
from tests.cli.stored import results
from tests.cli.tiny_recipe import HANGING
from tests.wandb_records import config_of, logged_keys, records_of

Write = Callable[..., Path]


def test_a_comparison_killed_in_the_middle_of_a_run_continues_to_the_same_results(
    tmp_path: Path, write_comparison: Write
) -> None:
    methods = {"asgd": {"overrides": {"model.init_args.hang_at": 5}}}
    comparison = write_comparison(tmp_path, seeds=[0], methods=methods)
    # A checkpoint after every step: those of the first five are there when the sixth hangs.
    arguments = ["compare", str(comparison), "--checkpoint-every", "1e-6", "--output", str(tmp_path / "out")]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path]),
        HANGING: str(tmp_path / "hanging"),
    }
    command = [sys.executable, "-m", "lightning_async.cli.main", *arguments]
    with (tmp_path / "log").open("w") as log:
        killed = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
    try:
        deadline = time.monotonic() + 180
        while not (tmp_path / "hanging").exists():
            assert killed.poll() is None, (tmp_path / "log").read_text()
            assert time.monotonic() < deadline, "the run did not come to its sixth step"
            time.sleep(0.05)
    finally:
        killed.kill()
        killed.wait()
    assert list((tmp_path / "out").glob("runs/*/resume.ckpt"))
    assert not results(tmp_path / "out")

    assert main(arguments) == 0
    (log_of_run,) = (tmp_path / "out").glob("runs/*/log.txt")
    assert "Restored all states from the checkpoint" in log_of_run.read_text()
    (run,) = known_runs(load_comparison(comparison), {}).values()
    uninterrupted = execute(run, tmp_path / "whole", checkpoint_every=60.0, report=lambda _: None)
    ResultFolder(tmp_path).write(run.key, uninterrupted)
    assert results(tmp_path / "out") == results(tmp_path)


def test_who_stops_listening_stops_the_runs(
    tmp_path: Path, write_comparison: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(HANGING, str(tmp_path / "hanging"))
    methods = {"asgd": {}, "minibatch_sgd": {"overrides": {"model.init_args.hang_at": 0}}}
    comparison = load_comparison(write_comparison(tmp_path, seeds=[0], budget=4, methods=methods))
    jobs = {
        key: Job(run, key, tmp_path, checkpoint_every=60.0, wandb=None, wandb_group="")
        for key, run in known_runs(comparison, {}).items()
    }
    with closing(run_all(lambda _: jobs, {}, tmp_path, 1)) as events:
        first = next(event.key for event in events if event.result is not None)
    assert set(results(tmp_path)) == {first}


def test_runs_are_sent_to_wandb_as_one_offline_group(tmp_path: Path, write_comparison: Write) -> None:
    wandb = {"project": "tiny", "offline": True}
    methods = {"asgd": {"label": "ASGD", "grid": {"optimizer.lr": ["2^-5", "2^-4"]}}, "minibatch_sgd": None}
    comparison = write_comparison(tmp_path, seeds=[0], budget=4, wandb=wandb, methods=methods)
    assert main(["compare", str(comparison), "--output", str(tmp_path / "out")]) == 0
    folders = list((tmp_path / "out").glob("runs/*/wandb/offline-run-*"))
    assert len(folders) == 4
    told = {}
    for folder in folders:
        records = records_of(folder)
        (run,) = (record.run for record in records if record.run.ByteSize())
        assert (run.project, run.run_group) == ("tiny", "mine")
        told[run.display_name] = config_of(records)["comparison"]
        assert any("logical_time" in row for row in logged_keys(records))
    asgd = {"panel": "all", "method": "asgd", "label": "ASGD"}
    assert told["all/asgd/lr=0.03125/seed 5"] == {
        **asgd, "kind": "tuning", "step_size": 2**-5, "settings": {"lr": 2**-5}, "seed": 5
    }  # fmt: skip
    step = told["all/asgd/seed 0"]["step_size"]
    assert step in (2**-5, 2**-4)
    assert told["all/asgd/seed 0"] == {
        **asgd, "kind": "reported", "step_size": step, "settings": {"lr": step}, "seed": 0
    }  # fmt: skip
    assert told["all/minibatch_sgd/seed 0"] == {
        "panel": "all", "method": "minibatch_sgd", "label": "minibatch_sgd", "kind": "reported", "step_size": 0.03,
        "settings": {}, "seed": 0,
    }  # fmt: skip


def test_finished_runs_that_are_not_sent_to_wandb_are_counted(
    tmp_path: Path, write_comparison: Write, capsys: pytest.CaptureFixture[str]
) -> None:
    comparison = write_comparison(tmp_path, seeds=[0], budget=4)
    command = ["compare", str(comparison), "--output", str(tmp_path / "out")]
    assert main([*command, "--only", "asgd"]) == 0
    write_comparison(tmp_path, seeds=[0], budget=4, wandb={"project": "tiny", "offline": True})
    assert "Weights & Biases" not in capsys.readouterr().out
    for _ in range(2):  # the other run is sent by the first
        assert main(command) == 0
        assert (
            "1 finished run not sent to Weights & Biases, where runs go while they train: to send all, let the "
            "comparison run again in another folder, with --output\n"
        ) in capsys.readouterr().out
