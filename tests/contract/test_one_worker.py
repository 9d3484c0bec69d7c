"""One worker and no delay: every method is plain Lightning, bit for bit."""

from functools import cache

import pytest
import torch
from contract_battery.classifier import OPTIMIZERS, Classifier
from contract_battery.images import loader, validation_loader
from contract_battery.running import Journal, MemoryLogger, differences, outcome, quiet
from contract_battery.table import ALONE, ALONE_TIME, CONTRACTS, OWN

from lightning_async import SimulatedCluster
from lightning_async.methods import ClippedASGD
from lightning_async.simulation import FixedTimes

EPOCHS = 3
SETTINGS = {
    "sgd": {"optimizer": "sgd"},
    "momentum": {"optimizer": "momentum", "schedule": True},
    "adamw": {"optimizer": "adamw", "schedule": True, "validate": True},
    "trainer-clips": {"optimizer": "momentum", "gradient_clip_val": 0.2},
    "bf16": {"optimizer": "adamw", "precision": "bf16-mixed"},
}


def run(strategy=None, optimizer="sgd", schedule=False, validate=False, module_optimizer=None, **arguments):
    journal, logger = Journal(), MemoryLogger()
    if strategy is not None:
        arguments["strategy"] = strategy
    trainer = quiet(max_epochs=EPOCHS, callbacks=[journal], logger=logger, **arguments)
    module = Classifier(module_optimizer or optimizer, schedule=schedule)
    trainer.fit(module, loader(), validation_loader() if validate else None)
    losses = {step: loss for step, (loss, _) in journal.steps.items()}
    return {**outcome(trainer), "losses": losses, "validations": journal.validations, "log": logger.rows}


@cache
def plain(setting: str):
    return run(**SETTINGS[setting])


def alone(name: str, optimizer=None):
    contract = CONTRACTS[name]
    cluster = SimulatedCluster(FixedTimes([ALONE_TIME]))
    return contract.strategy(contract.alone(), cluster, optimizer=optimizer or contract.optimizer)


def without_progress(result):
    return {key: value for key, value in result.items() if key not in ("progress", "replicas")}


@pytest.mark.parametrize(
    ("name", "setting"),
    [
        (name, setting)
        for name in ALONE
        if name in OWN
        for setting in SETTINGS
        if not (setting == "trainer-clips" and isinstance(ALONE[name].method(), ClippedASGD))  # that is refused
    ],
)
def test_equals_plain_training(name: str, setting: str) -> None:
    ours = run(alone(name), **SETTINGS[setting])
    assert differences(plain(setting), without_progress(ours)) == []
    steps = 7 * EPOCHS
    assert ours["progress"] == (ALONE_TIME * steps, steps, 0, 0)


class Replaced(Classifier):
    """A module whose own optimizer is the one that a strategy would bring."""

    def __init__(self, make) -> None:
        super().__init__()
        self.make = make

    def configure_optimizers(self):
        return self.make(self)


@pytest.mark.parametrize("name", [name for name in ALONE if name not in OWN])
def test_equals_plain_training_with_the_optimizer_that_a_method_brings(name: str) -> None:
    plain_trainer, ours = quiet(max_epochs=EPOCHS), quiet(max_epochs=EPOCHS, strategy=alone(name))
    plain_trainer.fit(Replaced(CONTRACTS[name].optimizer), loader())
    ours.fit(Classifier(), loader())
    assert differences(outcome(plain_trainer), without_progress(outcome(ours))) == []


@pytest.mark.parametrize("name", sorted(OWN.keys() & ALONE.keys()))
def test_equals_plain_training_when_the_optimizer_comes_from_the_strategy(name: str) -> None:
    strategy = alone(name, optimizer=OPTIMIZERS["adamw"])
    ours = run(strategy, module_optimizer="sgd")
    theirs = run(optimizer="adamw")
    assert differences(theirs, without_progress(ours)) == []


@pytest.mark.parametrize("name", sorted(OWN.keys() & ALONE.keys()))
def test_a_batch_of_one_sample_equals_plain_training(name: str) -> None:
    results = []
    for strategy in (None, alone(name)):
        arguments = {} if strategy is None else {"strategy": strategy}
        trainer = quiet(max_steps=16, **arguments)
        trainer.fit(Classifier("momentum"), loader(batch_size=1))
        results.append(without_progress(outcome(trainer)))
    assert differences(*results) == []


def test_plain_training_does_something() -> None:
    before = Classifier("sgd").state_dict()
    after = plain("sgd")["module"]
    assert all(not torch.equal(before[key], after[key]) for key in before)
