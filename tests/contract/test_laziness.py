"""What is not used is not computed, not drawn, and not kept."""

import pytest
import torch
from contract_battery.classifier import Classifier
from contract_battery.images import Images, loader
from contract_battery.running import quiet, uneven_cluster
from contract_battery.table import OWN
from lightning.pytorch import Callback
from torch.utils.data import DataLoader

from lightning_async import ParameterServerStrategy, SimulatedCluster
from lightning_async.methods import ASGD, RingmasterASGD
from lightning_async.simulation import TwoSpeedTimes

STEPS = 14


class Counting(Images):
    """Writes down which samples are read."""

    def __init__(self) -> None:
        super().__init__()
        self.read: list[int] = []

    def __getitem__(self, index: int):
        self.read.append(index)
        return super().__getitem__(index)


class Calls(Classifier):
    calls = 0

    def training_step(self, batch, batch_idx):
        self.calls += 1
        return super().training_step(batch, batch_idx)


@pytest.mark.parametrize("name", OWN)
def test_only_used_jobs_are_computed_and_only_their_mini_batches_drawn(name: str) -> None:
    contract = OWN[name]
    strategy = contract.build()
    used = contract.jobs(STEPS)
    module, data = Calls(), Counting()
    quiet(strategy=strategy, max_steps=STEPS).fit(module, DataLoader(data, batch_size=1))
    assert module.calls == used
    assert data.read == [index % 13 for index in range(used)]


def test_the_battery_has_methods_that_discard() -> None:
    discarding = {name for name, contract in OWN.items() if sum(step.discarded for step in contract.schedule(STEPS))}
    assert {"ringmaster_asgd", "delay_adaptive_asgd/drop", "rennala_sgd", "rennala_sgd/without-stops"} <= discarding


class Copies(Callback):
    """The largest number of copies of the parameters between two steps."""

    most = 0

    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx) -> None:
        self.most = max(self.most, trainer.strategy.server.versions.num_copies)


@pytest.mark.parametrize("name", [name for name, c in OWN.items() if c.strategy is ParameterServerStrategy])
def test_no_more_copies_than_workers_and_one(name: str) -> None:
    contract, copies = OWN[name], Copies()
    trainer = quiet(strategy=contract.build(), max_steps=40, callbacks=[copies])
    trainer.fit(Classifier(), loader())
    bound = contract.method().max_delay(STEPS)
    assert copies.most <= min(4, 4 if bound is None else bound + 1) + 1


@pytest.mark.parametrize("threshold", [1, 3, 8])
def test_a_threshold_bounds_the_copies(threshold: int) -> None:
    copies = Copies()
    cluster = SimulatedCluster(TwoSpeedTimes(num_workers=16, slowdown=40.0))
    strategy = ParameterServerStrategy(RingmasterASGD(threshold, stops=False), cluster)
    quiet(strategy=strategy, max_steps=60, callbacks=[copies]).fit(Classifier(), loader())
    assert copies.most <= threshold + 1


def test_the_parameters_are_the_same_objects_throughout() -> None:
    module = Classifier("adamw")
    before = list(map(id, module.parameters()))
    trainer = quiet(strategy=ParameterServerStrategy(ASGD(), uneven_cluster()), max_steps=9)
    trainer.fit(module, loader())
    assert list(map(id, module.parameters())) == before
    assert {id(p) for p in trainer.optimizers[0].state} == set(before)


def test_buffers_belong_to_the_server_and_move_with_every_job() -> None:
    module = Classifier()
    quiet(strategy=ParameterServerStrategy(ASGD(), uneven_cluster()), max_steps=9).fit(module, loader())
    assert module.network.norm.num_batches_tracked.item() == 9
    assert not torch.equal(module.network.norm.running_mean, torch.zeros(2))
