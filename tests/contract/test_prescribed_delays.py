"""On prescribed, uneven times every method equals a loop written by hand."""

import pytest
import torch
from contract_battery.classifier import Classifier
from contract_battery.images import loader
from contract_battery.reference import Server
from contract_battery.running import UNEVEN, quiet
from contract_battery.table import CONTRACTS, OWN

STEPS = 14


@pytest.mark.parametrize(
    ("name", "optimizer"),
    [(name, optimizer) for name in OWN for optimizer in ("momentum", "adamw")]
    + [(name, "sgd") for name in CONTRACTS if name not in OWN],
)
def test_equals_the_loop_by_hand(name: str, optimizer: str) -> None:
    contract = CONTRACTS[name]
    copy = Classifier(optimizer, dropout=0.3)
    own = None if contract.optimizer is None else contract.optimizer(copy)
    server = Server(copy, list(loader()), seed=5, optimizer=own)
    contract.loop(server, UNEVEN, STEPS)

    module = Classifier(optimizer, dropout=0.3)
    strategy = contract.build(seed=5)
    quiet(strategy=strategy, max_steps=STEPS).fit(module, loader())

    assert [step.time for step in contract.schedule(STEPS)] == server.times
    for (key, ours), theirs in zip(module.state_dict().items(), server.module.state_dict().values(), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-6, msg=key)


@pytest.mark.parametrize("name", CONTRACTS)
def test_the_uneven_times_give_the_method_something_to_do(name: str) -> None:
    steps = CONTRACTS[name].schedule(STEPS)
    jobs = [job for step in steps for job in step.jobs]
    assert len({job.worker for job in jobs}) > 1
    assert len({job.version for job in jobs}) > 1
