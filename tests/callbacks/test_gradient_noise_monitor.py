"""Measured gradient noise goes to loggers, checkpoints and plots."""

from pathlib import Path

import numpy as np
import pytest
import torch
from lightning.pytorch import Trainer
from lightning.pytorch.loggers import CSVLogger
from torch.utils.data import DataLoader

from lightning_async.cli.main import main
from tests.callbacks.noisy_training import STRATEGIES, Busy, NoisyTargets, monitor, run
from tests.callbacks.training import Memory


def test_values_go_to_any_logger_under_the_step_and_beside_logical_time() -> None:
    memory, noise = Memory(), monitor(steps=[2], every_n_steps=3)
    trainer = run("clipped", noise, logger=memory)
    rows = [(step, row) for step, row in memory.rows if "gradient_noise/theta" in row]
    assert [step for step, _ in rows] == [0, 2, 3, 6, 9]
    for (_, row), measured in zip(rows, noise.measurements, strict=True):
        assert row["gradient_noise/theta"] == measured.tail.theta
        assert (row["gradient_noise/theta_low"], row["gradient_noise/theta_high"]) == measured.tail.interval
        assert row["gradient_noise/order_statistics"] == 10
        assert row["logical_time"] <= trainer.strategy.logical_time


def test_a_csv_logger_takes_values_that_come_late(tmp_path: Path) -> None:
    run("plain", monitor(steps=[4]), logger=CSVLogger(tmp_path), log_every_n_steps=1)
    (file,) = tmp_path.rglob("metrics.csv")
    header, *rows = file.read_text().splitlines()
    column = header.split(",").index("gradient_noise/theta")
    assert sum(row.split(",")[column] != "" for row in rows) == 1


def test_a_resumed_run_keeps_what_was_measured(tmp_path: Path) -> None:
    path, whole, first, second = tmp_path / "half.ckpt", monitor(), monitor(), monitor(steps=[0, 3, 8])
    run("clipped", whole)
    run("clipped", first, max_steps=5).save_checkpoint(path)
    torch.load(path)
    trainer = Trainer(
        strategy=STRATEGIES["clipped"](), max_steps=10, max_epochs=-1, accelerator="cpu", callbacks=[second],
        logger=False, enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
    )  # fmt: skip
    trainer.fit(Busy(), DataLoader(NoisyTargets(), batch_size=4, shuffle=True), ckpt_path=path)
    assert [measured.step for measured in second.measurements] == [0, 3, 8]
    for kept, measured in zip(second.measurements[:2], whole.measurements, strict=True):
        np.testing.assert_array_equal(kept.errors, measured.errors)
        assert kept.tail == measured.tail


def test_plots_of_every_run_go_to_a_folder_of_their_own(tmp_path: Path) -> None:
    (tmp_path / "noise" / "version_4").mkdir(parents=True)
    for _ in range(2):
        run("plain", monitor(folder=str(tmp_path / "noise")), max_steps=4)
    assert sorted(str(path.relative_to(tmp_path / "noise")) for path in tmp_path.rglob("*.png")) == [
        f"version_{version}/gradient_noise_0000000{step}.png" for version in (5, 6) for step in (0, 3)
    ]


def test_the_fitted_law_is_drawn_over_the_sorted_errors() -> None:
    noise = monitor(steps=[0], num_samples=40)
    run("plain", noise)
    (axis,) = noise.measurements[0].figure().axes
    errors, _, fitted = axis.lines
    assert (len(errors.get_xdata()), len(fitted.get_xdata())) == (39, 10)
    slope = np.polyfit(np.log(fitted.get_xdata()), np.log(fitted.get_ydata()), 1)[0]
    assert slope == pytest.approx(noise.measurements[0].tail.theta)


def test_it_is_configured_by_yaml(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = Path(__file__).parents[2]
    monkeypatch.setattr("sys.argv", ["lightning-async"])
    monkeypatch.syspath_prepend(str(root))
    files = [
        root / f"configs/{name}.yaml" for name in ("recipes/a9a", "methods/clipped_asgd", "callbacks/gradient_noise")
    ]
    words = [word for file in files for word in ("--config", str(file))]
    changes = ["--trainer.max_steps=3", "--trainer.enable_progress_bar=false"]
    noise = "--trainer.callbacks.init_args."
    changes += [f"{noise}steps=[0,2]", f"{noise}num_samples=20", f"{noise}num_order_statistics=8"]
    assert main(["fit", *words, *changes]) == 0
    assert len(list(Path("outputs/gradient_noise/version_0").iterdir())) == 2
    (log,) = tmp_path.rglob("metrics.csv")
    assert "gradient_noise/theta" in log.read_text()
