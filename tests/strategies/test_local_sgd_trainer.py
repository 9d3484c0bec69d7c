"""Replicas under a Trainer: the average is what is seen, and what does not work is refused with the remedy."""

import csv

import pytest
import torch
from lightning.fabric.utilities.exceptions import MisconfigurationException
from lightning.pytorch import Callback
from lightning.pytorch.callbacks import (
    BaseFinetuning,
    EMAWeightAveraging,
    GradientAccumulationScheduler,
    ModelCheckpoint,
    OnExceptionCheckpoint,
    StochasticWeightAveraging,
)
from lightning.pytorch.loggers import CSVLogger

from lightning_async import Link, SimulatedCluster
from lightning_async.callbacks import LogicalTimeLimit, LogicalTimeMonitor
from lightning_async.methods import ASGD, LOSCAR, LocalSGD
from lightning_async.methods.server import NonFiniteGradientError
from lightning_async.simulation import FixedTimes, UniformTimes
from lightning_async.strategies import LocalSGDStrategy, ParameterServerStrategy


def _strategy(method=None, latency=2.0, times=(1.0, 1.5, 2.3), **arguments):
    cluster = SimulatedCluster(FixedTimes(list(times)), Link(latency=latency))
    return LocalSGDStrategy(method or LOSCAR(0.5, compute_window=4.0), cluster, **arguments)


def _flat(module) -> torch.Tensor:
    return torch.cat([p.detach().flatten() for p in module.parameters()])


class _Unfreezing(BaseFinetuning):
    def freeze_before_training(self, pl_module) -> None:
        self.freeze(pl_module.network[0])

    def finetune_function(self, pl_module, epoch, optimizer) -> None:
        self.unfreeze_and_add_param_group(pl_module.network[0], optimizer)


class _Averages(Callback):
    def __init__(self) -> None:
        self.validated: list[tuple[torch.Tensor, torch.Tensor, bool]] = []

    def on_validation_batch_start(self, trainer, pl_module, batch, batch_idx, dataloader_idx=0) -> None:
        buffers = trainer.strategy.local.replicas.buffers.state_dict()
        average = [values.amax(0) if values.dtype == torch.int64 else values.mean(0) for values in buffers]
        same = all(map(torch.allclose, average, pl_module.buffers()))
        self.validated.append((_flat(pl_module), trainer.strategy.replicas.mean(0), same))


def test_the_average_is_validated_and_training_goes_on_with_replicas(classifier, images, quiet):
    averages, replicas = _Averages(), []

    class Look(Callback):
        def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx) -> None:
            worker = trainer.strategy.last_step.jobs[0].worker
            replicas.append(torch.equal(_flat(pl_module), trainer.strategy.replicas[worker]))

    quiet(
        strategy=_strategy(),
        max_steps=20,
        callbacks=[averages, Look()],
        val_check_interval=3,
        check_val_every_n_epoch=None,
    ).fit(classifier(), images(), images(batch_size=13))
    assert len(averages.validated) == 6
    for module, average, buffers in averages.validated:
        torch.testing.assert_close(module, average, rtol=0, atol=1e-7)
        assert buffers
    assert all(replicas)


def test_the_average_is_in_the_module_after_a_fit_and_for_validation(classifier, images, quiet):
    module, strategy = classifier(), _strategy()
    trainer = quiet(strategy=strategy, max_steps=10)
    trainer.fit(module, images())
    torch.testing.assert_close(_flat(module), strategy.replicas.mean(0), rtol=0, atol=1e-7)
    assert strategy.local.replicas.flat.disagreement() > 0
    trainer.validate(module, images(), verbose=False)
    torch.testing.assert_close(_flat(module), strategy.replicas.mean(0), rtol=0, atol=1e-7)


def test_steps_in_names_and_schedulers_count_local_steps(classifier, images, quiet, tmp_path):
    checkpoints = ModelCheckpoint(dirpath=tmp_path, filename="{step}", every_n_train_steps=4, save_top_k=-1)
    trainer = quiet(strategy=_strategy(), max_steps=10, callbacks=[checkpoints], enable_checkpointing=True)
    trainer.fit(classifier("sgd", schedule=True), images())
    assert {path.name for path in tmp_path.glob("*.ckpt")} == {"step=4.ckpt", "step=8.ckpt"}
    assert trainer.global_step == 10
    assert trainer.optimizers[0].param_groups[0]["lr"] == pytest.approx(0.1 * 0.8**3)


def test_an_exception_in_a_step_leaves_a_checkpoint_of_the_average(classifier, images, quiet, tmp_path):
    class Failing(classifier):
        def training_step(self, batch, batch_idx):
            loss = super().training_step(batch, batch_idx)
            if self.trainer.global_step == 8:
                raise RuntimeError("no more")
            return loss

    strategy = _strategy()
    with pytest.raises(RuntimeError, match="no more"):
        quiet(
            strategy=strategy, max_steps=20, callbacks=[OnExceptionCheckpoint(tmp_path)], enable_checkpointing=True
        ).fit(Failing(), images())
    saved = torch.load(next(tmp_path.rglob("*.ckpt")))
    module = classifier()
    module.load_state_dict(saved["state_dict"])
    torch.testing.assert_close(_flat(module), strategy.replicas.mean(0), rtol=0, atol=1e-7)
    assert saved["lightning_async"]["local"]["completed"] == 8


def _spoilt(classifier, how):
    class Spoilt(classifier):
        def training_step(self, batch, batch_idx):
            loss = super().training_step(batch, batch_idx)
            if self.trainer.global_step != 4:
                return loss
            return None if how == "none" else loss * float("nan")

    return Spoilt


@pytest.mark.parametrize("how", ["none", "nan"])
def test_a_step_without_a_usable_gradient_leaves_its_replica_where_it_is(classifier, images, quiet, how):
    seen: list[torch.Tensor] = []

    class Look(Callback):
        def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx) -> None:
            seen.append(trainer.strategy.replicas.clone())

    strategy = _strategy(LOSCAR(0.0, compute_window=4.0))
    with pytest.warns(UserWarning, match=r"step 4 .*left out.*strategy\.local\.nonfinite"):
        quiet(strategy=strategy, max_steps=8, callbacks=[Look()]).fit(_spoilt(classifier, how)(), images())
    assert torch.equal(seen[4], seen[3])
    assert not torch.equal(seen[5], seen[4])
    assert strategy.local.nonfinite == 1
    assert torch.isfinite(strategy.replicas).all()


def test_a_gradient_that_is_not_finite_stops_the_run_if_asked_for(classifier, images, quiet):
    with pytest.raises(NonFiniteGradientError, match="local step 4"):
        quiet(strategy=_strategy(on_nonfinite="raise"), max_steps=8).fit(_spoilt(classifier, "nan")(), images())


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"callbacks": [EMAWeightAveraging()]}, "EMAWeightAveraging callback.*Remove it"),
        ({"callbacks": [StochasticWeightAveraging(0.1)]}, "StochasticWeightAveraging callback.*Remove it"),
        ({"callbacks": [GradientAccumulationScheduler({0: 4})]}, "4 times the batch size"),
        ({"callbacks": [_Unfreezing()]}, "Train in two fits"),
        ({"accumulate_grad_batches": 2}, "2 times the batch size, or a longer compute_window"),
    ],
    ids=["ema", "swa", "scheduled-accumulation", "finetuning", "accumulation"],
)
def test_refused_with_the_remedy(classifier, images, quiet, arguments, match):
    with pytest.raises(MisconfigurationException, match=match):
        quiet(strategy=_strategy(), max_steps=4, **arguments).fit(classifier(), images())


def test_manual_optimization_is_refused(classifier, images, quiet):
    module = classifier()
    module.automatic_optimization = False
    with pytest.raises(MisconfigurationException, match="automatic_optimization = True"):
        quiet(strategy=_strategy(), max_steps=4).fit(module, images())


def test_parameters_that_join_later_are_refused(classifier, images, quiet):
    class Growing(classifier):
        def on_train_epoch_start(self) -> None:
            if self.current_epoch == 1:
                extra = torch.nn.Parameter(torch.zeros(1))
                self.trainer.optimizers[0].add_param_group({"params": [extra]})

    with pytest.raises(MisconfigurationException, match="no replicas"):
        quiet(strategy=_strategy(), max_steps=20).fit(Growing(), images())


def test_a_window_shorter_than_the_fastest_step_is_refused_when_the_strategy_is_made():
    with pytest.raises(ValueError, match="give at least compute_window=2"):
        _strategy(LocalSGD(1.0), times=[2.0, 3.0])


def test_methods_are_given_to_their_own_strategy():
    cluster = SimulatedCluster(UniformTimes(2))
    with pytest.raises(TypeError, match="server methods belong to ParameterServerStrategy"):
        LocalSGDStrategy(ASGD(), cluster)
    with pytest.raises(TypeError, match="belong to LocalSGDStrategy"):
        ParameterServerStrategy(LocalSGD(1.0), cluster)


def test_the_monitor_logs_what_was_sent_hidden_and_waited(classifier, images, quiet, tmp_path):
    logger = CSVLogger(tmp_path)
    strategy = _strategy(LOSCAR(1.0, compute_window=4.0), times=[1.0, 2.0])
    trainer = quiet(
        strategy=strategy, max_steps=18, callbacks=[LogicalTimeMonitor(), LogicalTimeLimit(12.0)], logger=logger
    )
    trainer.fit(classifier(), images())  # two rounds of 6 + 3 steps
    assert strategy.logical_time == 12.0
    with open(tmp_path / "lightning_logs/version_0/metrics.csv") as file:
        values = [row for row in csv.DictReader(file) if row["rounds"]][-1]
    d = strategy.replicas.shape[1]
    assert float(values["rounds"]) == 2
    assert float(values["bytes/round"]) == 2 * 4 * d
    assert float(values["bits_sent"]) == 8 * 2 * 2 * 4 * d
    assert float(values["time/hidden"]) == 4.0
    assert float(values["time/idle"]) == 0.0
    assert float(values["utilization"]) == 1.0
    assert float(values["disagreement"]) > 0.0


def test_buffers_that_a_module_replaces_belong_to_their_replica(classifier, images, quiet):
    class Counting(classifier):
        def __init__(self) -> None:
            super().__init__("sgd")
            self.register_buffer("seen", torch.zeros(()))

        def training_step(self, batch, batch_idx):
            self.seen = self.seen + 1
            return super().training_step(batch, batch_idx)

    strategy = _strategy(LOSCAR(0.0, compute_window=4.0))
    module = Counting()
    quiet(strategy=strategy, max_steps=7).fit(module, images())
    seen = [values for values in strategy.local.replicas.buffers.state_dict() if values.shape == (3,)]
    assert any(values.tolist() == [4.0, 2.0, 1.0] for values in seen)
    assert module.seen.item() == pytest.approx(7 / 3)


@pytest.mark.parametrize("precision", ["bf16-mixed", "bf16-true"])
def test_sixteen_bits_train(classifier, images, quiet, precision):
    strategy = _strategy()
    quiet(strategy=strategy, max_steps=30, precision=precision).fit(classifier("sgd"), images())
    assert strategy.local.rounds >= 2
    assert torch.isfinite(strategy.replicas).all()
    assert strategy.replicas.dtype == (torch.bfloat16 if precision == "bf16-true" else torch.float32)


def test_a_compiled_module_trains_like_a_plain_one(classifier, images, quiet):
    results = []
    for compiled in (False, True):
        module, strategy = classifier("sgd"), _strategy()
        target = torch.compile(module, backend="eager") if compiled else module
        quiet(strategy=strategy, max_steps=24).fit(target, images())
        results.append(strategy.replicas)
    torch.testing.assert_close(*results)
