"""Runs of the methods that go by a name."""

import pytest

from contract_battery.classifier import Classifier
from contract_battery.images import loader, validation_loader
from contract_battery.running import quiet
from contract_battery.table import REGISTERED_OWN, SERVER_ONES, SHAPES

every_method = pytest.mark.parametrize("name", REGISTERED_OWN)
every_shape = pytest.mark.parametrize("name", SHAPES)
every_server_method = pytest.mark.parametrize("name", SERVER_ONES)


def strategy_of(name: str, **arguments):
    contract = REGISTERED_OWN[name]
    return contract.build(**arguments)


def jobs_of(name: str) -> int:
    return REGISTERED_OWN[name].jobs_per_step or 1


def train(name: str, module=None, max_steps: int = 6, data=None, validate=False, ckpt_path=None, **arguments):
    trainer = quiet(strategy=strategy_of(name), max_steps=max_steps, **arguments)
    module = module if module is not None else Classifier("momentum", dropout=0.3)
    trainer.fit(
        module, data if data is not None else loader(), validation_loader() if validate else None, ckpt_path=ckpt_path
    )
    return trainer
