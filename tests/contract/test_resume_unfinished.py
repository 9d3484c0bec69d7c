"""What is left of a batch or an epoch when a checkpoint is written: a resumed run does it, once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from contract_battery.classifier import Classifier
from contract_battery.images import loader, validation_loader
from contract_battery.running import MemoryLogger, differences, outcome, quiet
from contract_battery.table import CONTRACTS
from lightning.pytorch import Callback, Trainer
from lightning.pytorch.callbacks import Checkpoint, EarlyStopping, OnExceptionCheckpoint
from torch import Tensor
from torch.optim.lr_scheduler import ReduceLROnPlateau
from torch.utils.data import DataLoader, IterableDataset
from torchmetrics import MaxMetric, MeanMetric, RunningMean

from lightning_async.callbacks import ValidateEvery

STEPS, EPOCH = 9, 4
HOOKS = ("batch", "validation", "epoch")
EVERY_OTHER = {"interval": "step", "frequency": 2, "strict": False}


class Scheduled(Classifier):
    """Its step size is reduced whenever what is monitored gets no better."""

    def __init__(self, monitor: str | None, **scheduler: Any) -> None:
        super().__init__("momentum", dropout=0.3)
        self.monitor, self.scheduler = monitor, scheduler
        self.mean = MeanMetric()

    def training_step(self, batch: list[Tensor], batch_idx: int) -> Tensor:
        loss = self.loss(batch)
        self.log("train/loss", loss, on_step=True, on_epoch=True)
        self.log("train/largest", loss, on_step=False, on_epoch=True, reduce_fx="max")
        self.mean(loss)
        self.log("train/mean", self.mean, on_step=False, on_epoch=True)
        if batch_idx == 0:
            self.log("train/first", loss, on_step=False, on_epoch=True, reduce_fx=sum)
        return loss

    def configure_optimizers(self) -> Any:
        optimizer = super().configure_optimizers()
        if self.monitor is None:
            return optimizer
        plateau = ReduceLROnPlateau(optimizer, patience=0, threshold=0.3, factor=0.9)
        return {
            "optimizer": optimizer,
            "lr_scheduler": {"scheduler": plateau, "monitor": self.monitor} | self.scheduler,
        }


class Saving(Checkpoint):
    """Saves in every hook in which checkpoints are written."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.saved: dict[tuple[str, int], int] = {}
        """How many rows were logged when a checkpoint was written in a hook at a step."""

    def path(self, hook: str, step: int) -> Path:
        return self.folder / f"{hook}-{step}.ckpt"

    def save(self, trainer: Trainer, hook: str) -> None:
        if trainer.global_step:
            self.saved[hook, trainer.global_step] = len(trainer.logger.rows)
            trainer.save_checkpoint(self.path(hook, trainer.global_step))

    def on_train_batch_end(self, trainer: Trainer, *args: Any) -> None:
        self.save(trainer, "batch")

    def on_validation_end(self, trainer: Trainer, *args: Any) -> None:
        self.save(trainer, "validation")

    def on_train_epoch_end(self, trainer: Trainer, *args: Any) -> None:
        self.save(trainer, "epoch")


class Epochs(Callback):
    """Which epochs began and ended, at which steps, and where validations were."""

    def __init__(self) -> None:
        self.events: list[tuple[str, int, int]] = []

    def note(self, what: str, trainer: Trainer) -> None:
        self.events.append((what, trainer.global_step, trainer.current_epoch))

    def on_train_epoch_start(self, trainer: Trainer, *args: Any) -> None:
        self.note("start", trainer)

    def on_validation_end(self, trainer: Trainer, *args: Any) -> None:
        self.note("validation", trainer)

    def on_train_epoch_end(self, trainer: Trainer, *args: Any) -> None:
        self.note("epoch", trainer)

    def later(self, since: tuple[str, int] | None) -> list[tuple[str, int, int]]:
        if since is None:
            return self.events
        done = HOOKS[1 : HOOKS.index(since[0]) + 1]
        return [
            event for event in self.events if event[1] > since[1] or (event[1] == since[1] and event[0] not in done)
        ]


class Run:
    """What a run logs, its events, and what it leaves behind."""

    def __init__(
        self,
        name: str,
        module: Classifier,
        folder: Path,
        *callbacks: Callback,
        since: Path | None = None,
        data: Any = None,
        **arguments: Any,
    ) -> None:
        self.saving, self.epochs, self.logger = Saving(folder), Epochs(), MemoryLogger()
        trainer = quiet(
            strategy=CONTRACTS[name].build(seed=2),
            callbacks=[*callbacks, self.epochs, self.saving],
            enable_checkpointing=True,
            logger=self.logger,
            **({"max_steps": STEPS} if "max_epochs" not in arguments else {}),
            **{"limit_train_batches": EPOCH, **arguments},
        )
        trainer.fit(module, loader(shuffle=True) if data is None else data, validation_loader(), ckpt_path=since)
        self.outcome = outcome(trainer) | {"epochs": trainer.current_epoch, "mean": module.mean.metric_state}


def check_every_checkpoint(tmp_path: Path, name: str, make_module: Any, *callbacks: Any, **arguments: Any) -> Run:
    whole = Run(name, make_module(), tmp_path / "whole", *(make() for make in callbacks), **arguments)
    last = whole.outcome["global_step"]
    for (hook, step), rows in whole.saving.saved.items():
        if step == last and (step == STEPS or (callbacks and hook != "batch")):
            continue  # there is nothing to train; or another callback has just stopped the run
        path = whole.saving.path(hook, step)
        again = Run(name, make_module(), tmp_path / "again", *(make() for make in callbacks), since=path, **arguments)
        where = f"resumed from {path.name}"
        assert differences(whole.outcome, again.outcome) == [], where
        assert whole.epochs.later((hook, step)) == again.epochs.events, where
        assert differences(whole.logger.rows[rows:], again.logger.rows) == [], where
    return whole


CASES = {
    "validation-at-epoch-ends": ("clipped_asgd", "val/loss", {}, {}),
    "validation-at-epoch-ends-replicas": ("loscar", "val/loss", {}, {}),
    "mean-of-the-epoch": ("loscar", "train/loss", {}, {}),
    "metric-object": ("clipped_asgd", "train/mean", {}, {"max_epochs": 2}),
    "validation-within-epochs": ("clipped_asgd", "val/loss", {}, {"val_check_interval": 3}),
    "validation-by-steps": ("loscar", "val/loss", {}, {"val_check_interval": 3, "check_val_every_n_epoch": None}),
    "every-step": ("loscar", "train/loss", {"interval": "step"}, {"val_check_interval": 3}),
    "every-other-step": ("clipped_asgd", "val/loss", EVERY_OTHER, {"val_check_interval": 3}),
    "no-scheduler": ("clipped_asgd", None, {}, {"val_check_interval": 3}),
}


@pytest.mark.parametrize("case", CASES)
def test_step_sizes_and_metrics_go_on(case: str, tmp_path: Path) -> None:
    name, monitor, scheduler, arguments = CASES[case]
    whole = check_every_checkpoint(tmp_path, name, lambda: Scheduled(monitor, **scheduler), **arguments)
    assert {hook for hook, _ in whole.saving.saved} == set(HOOKS)
    if monitor is not None:
        assert whole.outcome["optimizer"][0]["param_groups"][0]["lr"] < 0.1


class Measured(Scheduled):
    """Metric objects of several kinds, one of them logged at the end of the epoch only."""

    def __init__(self) -> None:
        super().__init__("train/both")
        self.first, self.second = MeanMetric(), MaxMetric()
        self.both = self.first + self.second
        self.running, self.late, self.validated = RunningMean(window=3), MeanMetric(), MeanMetric()

    def training_step(self, batch: list[Tensor], batch_idx: int) -> Tensor:
        loss = super().training_step(batch, batch_idx)
        self.both.update(loss.detach())
        self.running(loss.detach())
        self.late.update(loss.detach())
        self.log("train/both", self.both, on_step=False, on_epoch=True)
        self.log("train/running", self.running, on_step=True, on_epoch=True)
        return loss

    def on_train_epoch_end(self) -> None:
        self.log("train/late", self.late)

    def validation_step(self, batch: list[Tensor], batch_idx: int) -> None:
        loss = self.loss(batch)
        self.validated(loss)
        self.log("val/loss", self.validated, on_step=True, on_epoch=True)


@pytest.mark.parametrize("name", ["asgd", "loscar"])
def test_metric_objects_go_on(name: str, tmp_path: Path) -> None:
    check_every_checkpoint(tmp_path, name, Measured, val_check_interval=3)


class Failing(MeanMetric):
    def compute(self) -> Tensor:
        raise ValueError("nothing to compute")


class NotComputable(Scheduled):
    def __init__(self) -> None:
        super().__init__(None)
        self.failing = Failing()

    def training_step(self, batch: list[Tensor], batch_idx: int) -> Tensor:
        loss = super().training_step(batch, batch_idx)
        self.failing.update(loss.detach())
        self.log("train/failing", self.failing, on_step=False, on_epoch=True)
        return loss


def test_a_metric_that_cannot_be_computed_keeps_no_checkpoint_from_being_written(tmp_path: Path) -> None:
    saving = OnExceptionCheckpoint(tmp_path, "rescued")
    with pytest.raises(ValueError, match="nothing to compute"):
        Run("asgd", NotComputable(), tmp_path / "run", saving)
    assert torch.load(tmp_path / "rescued.ckpt", weights_only=True)["global_step"] == EPOCH


class Elsewhere(Scheduled):
    """Logs a metric that is no part of it."""

    def __init__(self) -> None:
        super().__init__(None)
        self.hidden = [MeanMetric()]

    def training_step(self, batch: list[Tensor], batch_idx: int) -> Tensor:
        loss = super().training_step(batch, batch_idx)
        self.hidden[0].update(loss.detach())
        self.log("train/hidden", self.hidden[0], on_step=False, on_epoch=True, metric_attribute="hidden[0]")
        return loss


def test_a_metric_that_is_no_part_of_the_module_keeps_no_run_from_being_resumed(tmp_path: Path) -> None:
    whole = Run("asgd", Elsewhere(), tmp_path / "whole")
    again = Run("asgd", Elsewhere(), tmp_path / "again", since=whole.saving.path("batch", 2))
    assert differences(whole.outcome, again.outcome) == []


@pytest.mark.parametrize("arguments", [{}, {"val_check_interval": 3, "check_val_every_n_epoch": None}], ids=str)
def test_a_run_stops_early_where_it_would_have(arguments: dict[str, Any], tmp_path: Path) -> None:
    def impatient() -> EarlyStopping:
        return EarlyStopping("val/loss", patience=1, min_delta=100.0)

    whole = check_every_checkpoint(tmp_path, "asgd", lambda: Scheduled("val/loss"), impatient, **arguments)
    assert whole.outcome["global_step"] < STEPS


def test_validations_in_logical_time_go_on(tmp_path: Path) -> None:
    def every() -> ValidateEvery:
        return ValidateEvery(1.3)

    arguments = {"check_val_every_n_epoch": None, "val_check_interval": 1}
    scheduler = {"interval": "step", "strict": False}
    check_every_checkpoint(tmp_path, "loscar", lambda: Scheduled("val/loss", **scheduler), every, **arguments)


def test_a_checkpoint_of_a_resumed_run_is_worth_as_much(tmp_path: Path) -> None:
    whole = Run("asgd", Scheduled("val/loss"), tmp_path / "whole")
    again = Run("asgd", Scheduled("val/loss"), tmp_path / "1", since=whole.saving.path("batch", EPOCH))
    assert ("validation", EPOCH) in again.saving.saved
    for hook in ("validation", "epoch"):
        last = Run("asgd", Scheduled("val/loss"), tmp_path / "2", since=again.saving.path(hook, EPOCH))
        assert differences(whole.outcome, last.outcome) == [], hook


def test_data_of_unknown_length_go_on_after_an_epoch(tmp_path: Path) -> None:
    class Stream(IterableDataset[list[Tensor]]):
        def __iter__(self) -> Iterator[list[Tensor]]:
            yield from list(loader().dataset)[:12]

    data = {"data": DataLoader(Stream(), batch_size=4), "limit_train_batches": 1.0}
    whole = Run("asgd", Scheduled("val/loss"), tmp_path / "whole", **data)
    for hook in HOOKS:
        again = Run("asgd", Scheduled("val/loss"), tmp_path / "again", since=whole.saving.path(hook, 3), **data)
        assert differences(whole.outcome, again.outcome) == [], hook
    within = Run("asgd", Scheduled("val/loss"), tmp_path / "again", since=whole.saving.path("batch", 4), **data)
    assert within.outcome["global_step"] == STEPS


def test_an_older_checkpoint_is_loaded_and_says_what_it_loses(tmp_path: Path) -> None:
    whole = Run("asgd", Scheduled("val/loss"), tmp_path / "whole")
    path = whole.saving.path("batch", 2)
    checkpoint = torch.load(path, weights_only=True)
    del checkpoint["lightning_async"]["unfinished"]
    torch.save(checkpoint, path)
    with pytest.warns(UserWarning, match="ReduceLROnPlateau misses"):
        again = Run("asgd", Scheduled("val/loss"), tmp_path / "again", since=path)
    assert again.outcome["global_step"] == STEPS
