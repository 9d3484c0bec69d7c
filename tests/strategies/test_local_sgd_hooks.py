"""What hooks of a module see and write under replicas, as they would under a plain Trainer."""

import pytest
import torch
from lightning.pytorch.callbacks import ModelCheckpoint

from lightning_async import Link, LocalSGDStrategy, SimulatedCluster
from lightning_async.methods import LOSCAR, LocalSGD
from lightning_async.simulation import FixedTimes


def _strategy(times=(1.0, 3.0)):
    return LocalSGDStrategy(LOSCAR(0.5, compute_window=3.0), SimulatedCluster(FixedTimes(list(times)), Link(2.0)))


@pytest.fixture
def annealed(classifier):
    class Annealed(classifier):
        def __init__(self):
            super().__init__()
            self.register_buffer("beta", torch.tensor(0.0))
            self.seen = []

        def on_train_batch_start(self, batch, batch_idx):
            self.beta = self.beta.new_tensor(float(self.global_step))

        def training_step(self, batch, batch_idx):
            self.seen.append((self.global_step, self.beta.item()))
            return self.loss(batch)

    return Annealed


def test_what_a_hook_writes_at_the_start_of_a_batch_the_training_step_of_that_batch_sees(annealed, images, quiet):
    module = annealed()
    quiet(strategy=_strategy(), max_steps=12).fit(module, images())
    assert module.seen == [(step, float(step)) for step in range(12)]


@pytest.fixture
def clamped(classifier):
    class Clamped(classifier):
        assigned = False

        def on_train_batch_end(self, outputs, batch, batch_idx):
            for p in self.parameters():
                if self.assigned:
                    p.data = p.data.clamp(-0.05, 0.05)
                else:
                    p.data.clamp_(-0.05, 0.05)

    return Clamped


@pytest.mark.parametrize("times", [(1.0,), (1.0, 3.0)])
def test_parameters_that_a_hook_changes_stay_changed_whatever_is_saved_or_validated(
    clamped, images, quiet, times, tmp_path
):
    ends = []
    for arguments in (
        {},
        {"callbacks": [ModelCheckpoint(tmp_path, every_n_train_steps=1)], "enable_checkpointing": True},
        {"val_check_interval": 1, "check_val_every_n_epoch": None},
    ):
        strategy = _strategy(times)
        quiet(strategy=strategy, max_steps=9, **arguments).fit(clamped(), images(), images())
        ends.append(strategy.replicas.clone())
    assert torch.equal(ends[0], ends[1])
    assert torch.equal(ends[0], ends[2])


def test_parameters_that_a_hook_assigns_anew_are_taken_over(clamped, images, quiet):
    ends = []
    for assigned in (False, True):
        strategy = _strategy()
        module = clamped()
        module.assigned = assigned
        quiet(strategy=strategy, max_steps=13, limit_val_batches=0).fit(module, images())
        ends.append(strategy.replicas.clone())
    assert torch.equal(*ends)


@pytest.fixture
def counting(classifier):
    class Counting(classifier):
        def __init__(self):
            super().__init__()
            self.register_buffer("validations", torch.tensor(0))
            self.register_buffer("best", torch.tensor(float("nan")))

        def on_validation_epoch_end(self):
            self.validations += 1
            self.best.fill_(1.0 / self.validations.item())

    return Counting


_VALIDATING = {"val_check_interval": 1, "check_val_every_n_epoch": None}


def test_what_validation_writes_into_buffers_stays(counting, images, quiet):
    module = counting()
    quiet(strategy=_strategy(), max_steps=9, **_VALIDATING).fit(module, images(), images())
    assert (module.validations.item(), module.best.item()) == (9, pytest.approx(1 / 9))


def test_what_validation_has_written_is_in_the_checkpoint_that_is_saved_after_it(counting, images, quiet, tmp_path):
    saving = ModelCheckpoint(tmp_path, monitor="val/loss", save_top_k=-1)
    quiet(strategy=_strategy(), max_steps=4, callbacks=[saving], enable_checkpointing=True, **_VALIDATING).fit(
        counting(), images(), images()
    )
    module = counting()
    quiet(strategy=_strategy(), max_steps=7, **_VALIDATING).fit(
        module, images(), images(), ckpt_path=tmp_path / "epoch=0-step=3.ckpt"
    )
    assert module.validations.item() == 7


def test_buffers_that_are_changed_between_two_fits_are_those_of_all_replicas(counting, images, quiet):
    module, strategy = counting(), _strategy()
    trainer = quiet(strategy=strategy, max_steps=6, limit_val_batches=0)
    trainer.fit(module, images())
    module.best.fill_(7.0)
    trainer.fit_loop.epoch_loop.max_steps = 12
    trainer.fit(module, images())
    assert strategy.local.completed == 12
    assert module.best.item() == 7.0


def test_the_module_holds_a_replica_after_a_validation(classifier, images, quiet):
    class Looking(classifier):
        held = None

        def on_train_epoch_end(self):
            self.held = self.trainer.strategy.local.replicas.in_place

    module = Looking()
    strategy = LocalSGDStrategy(LocalSGD(4.0), SimulatedCluster(FixedTimes([1.0, 2.0])))
    quiet(strategy=strategy, max_epochs=1).fit(module, images(), images())
    assert module.held == strategy.last_step.jobs[0].worker
