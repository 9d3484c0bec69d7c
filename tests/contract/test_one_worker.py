"""One worker and no delay: every method is plain Lightning, bit for bit."""

from functools import cache

import pytest
import torch
from contract_battery.classifier import OPTIMIZERS, Classifier
from contract_battery.images import loader, validation_loader
from contract_battery.running import Journal, MemoryLogger, differences, outcome, quiet
from contract_battery.table import ALONE, ALONE_TIME, CONTRACTS

from lightning_async import SimulatedCluster
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
    return contract.strategy(contract.alone(), SimulatedCluster(FixedTimes([ALONE_TIME])), optimizer=optimizer)


def without_progress(result):
    return {key: value for key, value in result.items() if key not in ("progress", "replicas")}


@pytest.mark.parametrize(
    ("name", "setting"),
    [
        (name, setting)
        for name in ALONE
        for setting in SETTINGS
        if not (setting == "trainer-clips" and ALONE[name].method().clips)  # that is refused
    ],
)
def test_equals_plain_training(name: str, setting: str) -> None:
    ours = run(alone(name), **SETTINGS[setting])
    assert differences(plain(setting), without_progress(ours)) == []
    steps = 7 * EPOCHS
    assert ours["progress"] == (ALONE_TIME * steps, steps, 0, 0)


@pytest.mark.parametrize("name", ALONE)
def test_equals_plain_training_when_the_optimizer_comes_from_the_strategy(name: str) -> None:
    strategy = alone(name, optimizer=OPTIMIZERS["adamw"])
    ours = run(strategy, module_optimizer="sgd")
    theirs = run(optimizer="adamw")
    assert differences(theirs, without_progress(ours)) == []


@pytest.mark.parametrize("name", ALONE)
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
