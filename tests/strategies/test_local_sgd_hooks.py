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


@pytest.fixture
def writing(classifier):
    """A module that changes its weights and statistics in one hook, every time or the first time only."""

    def make(hook, once=False):
        module = classifier(dropout=0.0)
        calls = []

        def write(*args):
            calls.append(args)
            if len(calls) == 1 or not once:
                with torch.no_grad():
                    module.network[0].weight.mul_(0.9)
                    module.network[5].bias.data = module.network[5].bias.data + 0.1
                    module.network[1].running_mean.add_(0.3)

        setattr(module, hook, write)
        return module

    return make


_WRITING = [
    ("on_fit_start", 0),
    ("on_train_start", 0),
    ("on_train_epoch_start", 0),
    ("on_train_epoch_end", 0),
    ("on_validation_epoch_end", 0),
    ("on_validation_epoch_end", 2),
    ("on_validation_end", 0),
    ("on_validation_end", 2),
]


@pytest.mark.parametrize(("hook", "sanity"), _WRITING)
def test_one_worker_keeps_what_any_hook_writes_as_a_plain_trainer_does(writing, images, quiet, hook, sanity):
    ends = []
    for strategy in ("auto", _strategy(times=(1.0,))):
        module = writing(hook)
        quiet(strategy=strategy, max_epochs=3, num_sanity_val_steps=sanity).fit(module, images(), images())
        ends.append(module.state_dict())
    assert all(torch.equal(*pair) for pair in zip(*(end.values() for end in ends), strict=True))


@pytest.mark.parametrize("hook", ["on_train_start", "on_validation_end"])
def test_a_parameter_that_is_written_while_no_replica_is_in_place_is_so_in_all_of_them(writing, images, quiet, hook):
    class Still(LocalSGDStrategy):  # replicas as they are when the first step after the hook begins
        def optimizer_step(self, optimizer, closure, model=None, **kwargs):
            self.seen.append([p.clone() for p in self.replicas])
            return super().optimizer_step(optimizer, closure, model, **kwargs)

    strategy = Still(LOSCAR(0.5, compute_window=3.0), SimulatedCluster(FixedTimes([1.0, 3.0]), Link(2.0)))
    strategy.seen = []
    module = writing(hook, once=True)
    start = [p.detach().clone() for p in module.parameters()]
    quiet(strategy=strategy, max_epochs=2).fit(module, images(), images())
    steps = len(images())
    weight, bias = slice(0, 27), slice(-3, None)  # of the convolution, of the head
    at = 0 if hook == "on_train_start" else steps
    for replica in strategy.seen[at]:
        assert torch.equal(replica[weight], strategy.seen[at][0][weight])
        assert torch.equal(replica[bias], strategy.seen[at][0][bias])
    if hook == "on_train_start":
        assert torch.equal(strategy.seen[0][0][weight], 0.9 * start[0].flatten())
    else:  # what was not written stays the replica's own
        assert not torch.equal(strategy.seen[at][0][27:-3], strategy.seen[at][1][27:-3])


def test_a_parameter_of_another_shape_is_refused(classifier, images, quiet):
    class Shrinking(classifier):
        def on_train_batch_start(self, batch, batch_idx):
            self.network[5].bias.data = torch.zeros(1)

    with pytest.raises(RuntimeError, match=r"parameter 5 was of shape \(3,\).* now holds a tensor of shape \(1,\)"):
        quiet(strategy=_strategy(), max_steps=4).fit(Shrinking(), images())


@pytest.fixture
def averaging(classifier):
    """A module that is validated with other weights than those it trains, which it puts back afterwards."""

    def make(begin, end, by_pointer):
        module = classifier()
        kept = {}

        def swap(*args):
            for p in module.parameters():
                if by_pointer:
                    kept[p], p.data = p.data, 0.5 * p.data
                else:
                    kept[p] = p.data.clone()
                    p.data.mul_(0.5)

        def restore(*args):
            for p, value in kept.items():
                if by_pointer:
                    p.data = value
                else:
                    p.data.copy_(value)
            kept.clear()

        setattr(module, begin, swap)
        setattr(module, end, restore)
        return module

    return make


@pytest.mark.parametrize("saved", [False, True])
@pytest.mark.parametrize("by_pointer", [False, True])
@pytest.mark.parametrize(
    ("begin", "end"),
    [
        ("on_validation_start", "on_validation_end"),
        ("on_validation_epoch_start", "on_validation_epoch_end"),
        ("on_validation_epoch_start", "on_validation_end"),
    ],
)
def test_weights_that_are_swapped_for_the_time_of_a_validation_leave_no_trace(
    averaging, classifier, images, quiet, tmp_path, begin, end, by_pointer, saved
):
    ends = []
    for module, arguments in (
        (classifier(), {"limit_val_batches": 0}),
        (averaging(begin, end, by_pointer), _VALIDATING),
    ):
        if saved and arguments is _VALIDATING:
            saving = ModelCheckpoint(tmp_path, monitor="val/loss", save_top_k=-1)
            arguments = {**arguments, "callbacks": [saving], "enable_checkpointing": True}
        strategy = _strategy((1.0, 1.5, 3.0))
        quiet(strategy=strategy, max_steps=13, **arguments).fit(module, images(), images())
        ends.append(strategy.replicas.clone())
    assert torch.equal(*ends)
    assert not torch.equal(ends[1][0], ends[1][1])


def test_one_worker_saves_what_a_validation_has_swapped_in_as_a_plain_trainer_does(averaging, images, quiet, tmp_path):
    states = []
    for strategy in ("auto", _strategy(times=(1.0,))):
        saving = ModelCheckpoint(tmp_path / str(len(states)), monitor="val/loss", save_top_k=-1)
        trainer = quiet(strategy=strategy, max_steps=3, callbacks=[saving], enable_checkpointing=True, **_VALIDATING)
        module = averaging("on_validation_epoch_start", "on_validation_end", by_pointer=False)
        module.network[4].p = 0.0
        trainer.fit(module, images(), images())
        states.append(torch.load(tmp_path / str(len(states)) / "epoch=0-step=2.ckpt"))
    plain, ours = (state["state_dict"] for state in states)
    assert all(torch.equal(plain[key], ours[key]) for key in plain)
    weight = states[1]["lightning_async"]["local"]["replicas"]["parameters"][0, :27]
    assert torch.equal(weight, plain["network.0.weight"].flatten())


def test_entries_that_are_not_written_stay_the_replicas_own(classifier, images, quiet):
    class Pruned(classifier):
        def on_validation_epoch_end(self):
            self.network[5].weight.data[0, 0] = 0.0

    strategy = _strategy((1.0, 1.5, 3.0))
    quiet(strategy=strategy, max_epochs=1).fit(Pruned(), images(), images())
    pruned = strategy.replicas[:, 36]
    assert torch.equal(pruned, torch.zeros(3))
    assert not torch.equal(strategy.replicas[0, 37:], strategy.replicas[1, 37:])


def test_a_second_fit_goes_on_if_a_parameter_is_not_a_number(classifier, images, quiet):
    module = classifier()
    module.unused = torch.nn.Parameter(torch.tensor(float("nan")))
    strategy = _strategy()
    trainer = quiet(strategy=strategy, max_steps=7, limit_val_batches=0)
    trainer.fit(module, images())
    trainer.fit_loop.epoch_loop.max_steps = 12
    trainer.fit(module, images())
    assert strategy.local.completed == 12
