"""Logical time beside the numbers in progress bars, files and services."""

import csv
from pathlib import Path
from typing import Any

import pytest
from lightning.pytorch.callbacks import RichProgressBar, TQDMProgressBar
from lightning.pytorch.loggers import CSVLogger, WandbLogger

from lightning_async.callbacks import LogicalTimeMonitor
from lightning_async.methods import ASGD
from lightning_async.simulation import FixedTimes, RandomTimes
from tests.callbacks.training import Regression, step_times, trainer_of
from tests.wandb_records import logged_keys, records_of

TIMES = FixedTimes([1.0, 2.5, 3.3])


@pytest.mark.parametrize("bar", [TQDMProgressBar, RichProgressBar])
def test_the_progress_bar_shows_logical_time_with_six_digits(bar: Any) -> None:
    progress_bar = bar()
    trainer = trainer_of(
        LogicalTimeMonitor(), progress_bar, times=FixedTimes([1234.5678]), max_steps=1, enable_progress_bar=True
    )
    module = Regression()
    trainer.fit(module)
    assert progress_bar.get_metrics(trainer, module)["logical_time"] == "1234.57"


def test_csv_files_hold_logical_time_in_full() -> None:
    times = RandomTimes(3, "exponential", [1.0, 2.0, 3.0])
    logger = CSVLogger(".", name="run", version=0)
    trainer_of(LogicalTimeMonitor(), times=times, logger=logger, log_every_n_steps=1).fit(Regression())
    with open("run/version_0/metrics.csv") as file:
        rows = list(csv.DictReader(file))
    made = step_times(ASGD(), times, 20)
    for key in ("train/loss", "val/loss", "utilization", "delay/mean"):
        assert [float(row["logical_time"]) for row in rows if row[key]] == made


def test_tensorboard_gets_every_number() -> None:
    pytest.importorskip("tensorboard")
    from lightning.pytorch.loggers import TensorBoardLogger
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    logger = TensorBoardLogger(".")
    trainer_of(LogicalTimeMonitor(), times=TIMES, logger=logger, log_every_n_steps=1).fit(Regression())
    events = EventAccumulator(logger.log_dir)
    events.Reload()
    assert {"logical_time", "delay/mean", "delay/max", "discarded", "utilization", "busy"} <= {
        *events.Tags()["scalars"]
    }


def test_wandb_draws_every_metric_against_logical_time_twice_in_the_same_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WANDB_SILENT", "true")
    import wandb

    for _ in range(2):
        logger = WandbLogger(project="test", save_dir=tmp_path, offline=True)
        trainer_of(LogicalTimeMonitor(), times=TIMES, logger=logger, log_every_n_steps=1).fit(Regression())
        wandb.finish()
    runs = sorted(tmp_path.glob("wandb/offline-run-*"))
    assert len(runs) == 2
    for run in runs:
        records = records_of(run)
        steps = {
            record.metric.glob_name or record.metric.name: record.metric
            for record in records
            if record.metric.ByteSize()
        }
        assert "logical_time" in steps
        assert steps["*"].step_metric == "logical_time"
        rows = logged_keys(records)
        assert all("logical_time" in row for row in rows)
        assert {"train/loss", "val/loss", "utilization", "delay/max"} <= set().union(*rows)
