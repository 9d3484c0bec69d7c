"""Gradients that are NaN, infinite or missing are left out of their step, and the schedule does not notice."""

from itertools import islice

import pytest
import torch
from contract_battery.classifier import Classifier
from contract_battery.images import loader
from contract_battery.reference import Server
from contract_battery.running import Journal, MemoryLogger, differences, outcome, progress, quiet, uneven_cluster
from contract_battery.table import REGISTERED_OWN, SERVER_ONES, SHAPES

from lightning_async import ParameterServerStrategy
from lightning_async.methods import ASGD, RennalaSGD
from lightning_async.methods.server import NonFiniteGradientError

every_method = pytest.mark.parametrize("name", REGISTERED_OWN)
every_fault = pytest.mark.parametrize("fault", ["none", "nan", "inf"])


class Faulty(Classifier):
    """Some calls of `training_step`, counted from 0, have no usable gradient."""

    def __init__(self, faults, fault: str, optimizer: str = "adamw") -> None:
        super().__init__(optimizer, norm=False)
        self.faults, self.fault, self.calls = faults, fault, 0

    def training_step(self, batch, batch_idx):
        loss = super().training_step(batch, batch_idx)
        self.calls += 1
        if self.calls - 1 not in self.faults:
            return loss
        return {"none": None, "nan": loss * float("nan"), "inf": loss * float("inf")}[self.fault]


def strategy_of(name: str, **arguments):
    contract = REGISTERED_OWN[name]
    return contract.build(**arguments)


def train(strategy, module, max_steps: int = 6, **arguments):
    trainer = quiet(strategy=strategy, max_steps=max_steps, **arguments)
    trainer.fit(module, loader())
    return trainer


@every_fault
@pytest.mark.parametrize("name", SHAPES)
def test_the_schedule_stays_as_it_is(name: str, fault: str) -> None:
    strategy, journal = strategy_of(name), Journal()
    expected = REGISTERED_OWN[name].schedule(6)
    with pytest.warns(UserWarning, match="left out"):
        trainer = train(strategy, Faulty({1, 2, 5}, fault), callbacks=[journal])
    assert [step for _, step in journal.steps.values()] == expected
    _, completed, _, nonfinite = progress(strategy)["progress"]
    assert trainer.global_step == completed == 6
    assert nonfinite == 3
    assert all(torch.isfinite(p).all() for p in trainer.lightning_module.parameters())


@every_fault
@pytest.mark.parametrize("name", SERVER_ONES)
def test_a_step_of_which_nothing_is_left_changes_nothing_but_the_counters(name: str, fault: str) -> None:
    strategy, contract = strategy_of(name), REGISTERED_OWN[name]
    first = contract.jobs(2)
    last = first + (contract.jobs(3) - first) // contract.local_steps  # one ends a job

    class Watching(Faulty):
        def on_train_batch_end(self, outputs, batch, batch_idx):
            state = [p.detach().clone() for p in self.parameters()]
            steps = {int(s["step"]) for s in self.optimizers().optimizer.state.values()}
            self.history.append((state, steps, outputs))

    module = Watching(range(first, last), fault)  # all of the third step
    module.history = []
    with pytest.warns(UserWarning, match="left out"):
        train(strategy, module, max_steps=4)
    (_, _, _), before, after, last = module.history
    assert differences(before[0], after[0]) == []
    assert (before[1], after[1], last[1]) == ({2}, {2}, {3})
    assert differences(after[0], last[0]) != []
    assert ("loss" in after[2]) == (fault != "none")


def test_the_others_are_averaged() -> None:
    server = Server(Classifier("momentum", norm=False), list(loader()), seed=0)
    for positions in ([0, 1], [1], [0, 1]):
        gradients = [server.gradient(server.iterate(), worker=0, number=0) for _ in range(2)]
        used = [gradients[position] for position in positions]
        server.step([sum(parts) / len(used) for parts in zip(*used, strict=True)], time=0.0)
    module = Faulty({2}, "none", optimizer="momentum")  # the first job of the second step
    with pytest.warns(UserWarning, match="left out"):
        train(ParameterServerStrategy(RennalaSGD(batch=2), uneven_cluster()), module, max_steps=3)
    for ours, theirs in zip(module.parameters(), server.parameters, strict=True):
        torch.testing.assert_close(ours, theirs)


def test_said_only_once() -> None:
    with pytest.warns(UserWarning, match="left out") as warnings:
        train(strategy_of("asgd"), Faulty({1, 2, 3}, "nan"))
    assert len([w for w in warnings if "left out" in str(w.message)]) == 1


@every_method
def test_a_run_that_raises_stops_at_the_newest_iterate(name: str) -> None:
    strategy = strategy_of(name, on_nonfinite="raise")
    module = Faulty({REGISTERED_OWN[name].jobs(3)}, "nan")
    with pytest.raises(NonFiniteGradientError, match='on_nonfinite="discard"'):
        train(strategy, module)
    expected = train(strategy_of(name), Faulty((), "nan"), max_steps=3)
    assert differences(dict(expected.lightning_module.state_dict()), dict(module.state_dict())) == []


@every_fault
@pytest.mark.parametrize("name", ["asgd", "rennala_sgd", "ringleader_asgd", "iasgd", "loscar"])
def test_runs_with_faults_are_resumed(name: str, fault: str, tmp_path) -> None:
    later = REGISTERED_OWN[name].jobs(4) + 1
    with pytest.warns(UserWarning, match="left out"):
        whole = train(strategy_of(name), Faulty({1, 2, later}, fault), max_steps=7)
    with pytest.warns(UserWarning, match="left out"):
        train(strategy_of(name), Faulty({1, 2}, fault), max_steps=4).save_checkpoint("a.ckpt")
    trainer = quiet(strategy=strategy_of(name), max_steps=7)
    with pytest.warns(UserWarning, match="left out"):
        trainer.fit(Faulty({1}, fault), loader(), ckpt_path="a.ckpt")
    assert differences(outcome(whole), outcome(trainer)) == []


@every_method
def test_a_loss_that_is_none_is_not_logged_as_a_number(name: str) -> None:
    class LogsLess(Faulty):
        def training_step(self, batch, batch_idx):
            loss = self.loss(batch)
            self.calls += 1
            if self.calls - 1 in self.faults:
                return None
            self.log("train/loss", loss)
            return loss

    logger = MemoryLogger()
    with pytest.warns(UserWarning, match="left out"):
        train(strategy_of(name), LogsLess({1, 2, 5}, "none"), logger=logger)
    assert all(torch.isfinite(torch.tensor(logger.values("train/loss"))))


def test_an_infinite_loss_of_a_stale_job_leaves_the_newest_iterate() -> None:
    strategy = ParameterServerStrategy(ASGD(), uneven_cluster())
    stale = [step.index for step in islice(strategy.method.steps(uneven_cluster()), 6) if step.delays[0] > 0]
    module = Faulty({stale[0]}, "inf")
    with pytest.warns(UserWarning, match="left out"):
        train(strategy, module, max_steps=stale[0] + 1)
    expected = train(ParameterServerStrategy(ASGD(), uneven_cluster()), Faulty((), "inf"), max_steps=stale[0])
    assert differences(dict(expected.lightning_module.state_dict()), dict(module.state_dict())) == []
