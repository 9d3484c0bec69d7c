"""One strategy object serves several Trainers, one after the other."""

import copy
import pickle
from functools import partial

import pytest
import torch
from lightning.pytorch.plugins import TorchCheckpointIO

from lightning_async import Link, ParameterServerStrategy, SimulatedCluster
from lightning_async.methods import LOSCAR, ClippedASGD
from lightning_async.simulation import FixedTimes
from lightning_async.strategies import LocalSGDStrategy


def _server():
    return ParameterServerStrategy(ClippedASGD(clip=1.0), SimulatedCluster(FixedTimes([1.0, 1.5, 2.3])))


def _replicas():
    cluster = SimulatedCluster(FixedTimes([1.0, 1.5, 2.3]), Link(latency=2.0))
    return LocalSGDStrategy(LOSCAR(0.5, compute_window=4.0), cluster)


@pytest.mark.parametrize("make", [_server, _replicas])
def test_the_second_trainer_starts_afresh(make, classifier, images, quiet):
    strategy = make()
    outcomes = []
    for _ in range(2):
        module = classifier()
        trainer = quiet(strategy=strategy, max_steps=7)
        trainer.fit(module, images(shuffle=True))
        assert trainer.global_step == 7
        assert strategy.last_step.index == 6
        outcomes.append(torch.cat([p.detach().flatten() for p in module.parameters()]))
    assert torch.equal(*outcomes)


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda s: pickle.loads(pickle.dumps(s))], ids=["copy", "pickle"])
@pytest.mark.parametrize("make", [_server, _replicas])
def test_a_copy_of_a_strategy_that_was_used_starts_afresh(make, duplicate, classifier, images, quiet):
    strategy = make()
    quiet(strategy=strategy, max_steps=7).fit(classifier(), images())
    other = duplicate(strategy)
    assert other.logical_time == 0.0
    assert other.lightning_module is None
    quiet(strategy=other, max_steps=7).fit(classifier(), images())
    assert other.logical_time == strategy.logical_time > 0


@pytest.mark.parametrize("make", [_server, _replicas])
def test_whoever_comes_back_to_a_strategy_that_was_elsewhere_is_told(make, classifier, images, quiet):
    strategy, module = make(), classifier()
    first = quiet(strategy=strategy, max_steps=7)
    first.fit(module, images())
    quiet(strategy=strategy, max_steps=5).fit(classifier(), images())
    first.fit_loop.epoch_loop.max_steps = 9
    with pytest.warns(UserWarning, match="in another Trainer since this one made its 7 steps"):
        first.fit(module, images())
    assert first.global_step == 9
    assert strategy.last_step.index == 1


def test_each_trainer_has_its_own_precision(classifier, images, quiet):
    strategy = _server()
    quiet(strategy=strategy, max_steps=1).fit(classifier(), images())
    assert quiet(strategy=strategy, max_steps=1, precision="bf16-mixed").precision == "bf16-mixed"
    assert quiet(strategy=strategy, max_steps=1).precision == "32-true"


def test_each_trainer_has_its_own_checkpoint_plugin(classifier, images, quiet, tmp_path):
    class Own(TorchCheckpointIO):
        pass

    strategy = _server()
    for plugins, kind in ([], TorchCheckpointIO), ([Own()], Own), ([], TorchCheckpointIO):
        trainer = quiet(strategy=strategy, max_steps=1, plugins=plugins)
        trainer.fit(classifier(), images())
        trainer.save_checkpoint(tmp_path / "a.ckpt")
        assert type(strategy.checkpoint_io) is kind


@pytest.mark.parametrize("wrong", [torch.optim.SGD([torch.zeros(1)], lr=0.1), 0.1, "sgd"], ids=["built", "lr", "name"])
def test_an_optimizer_that_is_not_a_callable_is_refused(wrong):
    with pytest.raises(TypeError, match=r"optimizer must be a callable .* partial\(torch.optim.SGD, lr=0.1\)"):
        ParameterServerStrategy(ClippedASGD(clip=1.0), SimulatedCluster(FixedTimes([1.0])), wrong)


def test_a_scheduler_that_is_not_a_callable_is_refused():
    make = partial(torch.optim.SGD, lr=0.1)
    with pytest.raises(TypeError, match="lr_scheduler must be a callable"):
        ParameterServerStrategy(ClippedASGD(clip=1.0), SimulatedCluster(FixedTimes([1.0])), make, lr_scheduler="step")
