"""Killed at any step and resumed, a run equals the one that was left alone, bit for bit."""

from pathlib import Path
from typing import Any

import pytest
from contract_battery.classifier import Classifier
from contract_battery.images import loader, validation_loader
from contract_battery.running import Journal, differences, outcome, quiet
from contract_battery.table import CONTRACTS, SHAPES
from lightning.pytorch.callbacks import ModelCheckpoint
from torch.optim import Optimizer
from torch.optim.lr_scheduler import ExponentialLR, LRScheduler

from lightning_async.data import Dirichlet, Shards

STEPS = 9  # an epoch of single jobs has 7, of three 2, of four 1
VALIDATIONS = {
    "no-validation": None,
    "validation-at-epoch-ends": {},
    "validation-within-epochs": {"val_check_interval": 0.5},
    "validation-by-steps": {"check_val_every_n_epoch": None, "val_check_interval": 2},
}


def decay(optimizer: Optimizer) -> LRScheduler:
    """For strategies that bring an optimizer: a step size that falls after every epoch."""
    return ExponentialLR(optimizer, gamma=0.8)


class Run:
    """One way to train; from the beginning or from a checkpoint."""

    def __init__(self, name: str, folder: Path, workers=0, validation="no-validation", partition=None) -> None:
        self.contract = CONTRACTS[name]
        self.folder, self.workers, self.validation, self.partition = folder, workers, VALIDATIONS[validation], partition

    def fit(self, folder: str, until: int = STEPS, checkpoint: Path | None = None):
        own = self.contract.optimizer is None
        schedule = {} if own else {"lr_scheduler": decay}
        strategy = self.contract.build(partition=self.partition, seed=2, **schedule)
        journal = Journal()
        saving = ModelCheckpoint(self.folder / folder, "{step}", every_n_train_steps=1, save_top_k=-1)
        arguments = self.validation or {}
        trainer = quiet(
            strategy=strategy, max_steps=until, callbacks=[journal, saving], enable_checkpointing=True, **arguments
        )
        trainer.fit(
            Classifier("adamw", dropout=0.3, schedule=own),
            loader(shuffle=True, augment=True, num_workers=self.workers),
            None if self.validation is None else validation_loader(),
            ckpt_path=checkpoint,
        )
        return outcome(trainer), journal

    def checkpoint(self, folder: str, step: int) -> Path:
        return self.folder / folder / f"step={step}.ckpt"


def assert_goes_on(whole, resumed, since: int, until: int = STEPS) -> None:
    """What was recorded after step `since` is what the whole run recorded."""
    for one, other in zip((whole.steps, whole.validations), (resumed.steps, resumed.validations), strict=True):
        expected = {step: value for step, value in one.items() if since < step <= until}
        assert differences(expected, {step: value for step, value in other.items() if step > since}) == []


def check_every_step(run: Run) -> None:
    """Resumed at every step and left alone after that; then killed after every other step."""
    result, journal = run.fit("whole")
    assert sorted(journal.steps) == list(range(1, STEPS + 1))
    for step in range(1, STEPS):
        resumed, later = run.fit("resumed", checkpoint=run.checkpoint("whole", step))
        assert differences(result, resumed) == [], f"resumed at {step}"
        assert_goes_on(journal, later, step)
    check_chain(run, result, journal, links=2)


def check_chain(run: Run, result: dict[str, Any], journal: Journal, links: int) -> None:
    """Killed again and again: every link of the chain goes on from the checkpoint of the one before."""
    checkpoint = None
    for step in range(0, STEPS, links):
        until = min(step + links, STEPS)
        resumed, later = run.fit("chain", until=until, checkpoint=checkpoint)
        assert_goes_on(journal, later, step, until)
        checkpoint = run.checkpoint("chain", until)
    assert differences(result, resumed) == []


@pytest.mark.parametrize("name", CONTRACTS)
def test_resumed_at_every_step(name: str, tmp_path: Path) -> None:
    check_every_step(Run(name, tmp_path))


@pytest.mark.parametrize("validation", [name for name in VALIDATIONS if name != "no-validation"])
@pytest.mark.parametrize("name", SHAPES)
def test_resumed_at_every_step_with_validation(name: str, validation: str, tmp_path: Path) -> None:
    check_every_step(Run(name, tmp_path, validation=validation))


@pytest.mark.parametrize("name", SHAPES)
def test_killed_after_every_step_with_loading_processes(name: str, tmp_path: Path) -> None:
    run = Run(name, tmp_path, workers=2, validation="validation-within-epochs")
    check_chain(run, *run.fit("whole"), links=1)


@pytest.mark.parametrize("partition", [Shards(per_worker=1), Dirichlet(alpha=0.5)], ids=["shards", "dirichlet"])
@pytest.mark.parametrize(
    "name", ["asgd/uniform", "ringmaster_asgd", "rennala_sgd", "ringleader_asgd", "malenia_sgd", "iasgd", "fedbuff"]
)
def test_resumed_at_every_step_when_workers_own_their_data(name: str, partition, tmp_path: Path) -> None:
    check_every_step(Run(name, tmp_path, partition=partition))
