"""Checkpoints of replicas: continued bit for bit at every step, also with a message in flight."""

import pytest
import torch
from lightning.fabric.utilities.exceptions import MisconfigurationException
from lightning.pytorch import Callback

from lightning_async import Link, SimulatedCluster
from lightning_async.callbacks import LogicalTimeMonitor
from lightning_async.methods import LOSCAR, DiLoCo
from lightning_async.simulation import FixedTimes
from lightning_async.strategies import LocalSGDStrategy

STEPS = 20
METHODS = {
    "loscar": lambda: LOSCAR(0.3, compute_window=4.0),
    "overwrite": lambda: LOSCAR(1.0, merge="overwrite", compute_window=4.0),
    "diloco": lambda: DiLoCo(4.0),
}


def _strategy(method):
    # A round: 4 + 2 + 1 local steps, then a message, during which overlapping methods make 5 + 3 + 2 more.
    return LocalSGDStrategy(method, SimulatedCluster(FixedTimes([1.0, 1.5, 2.3]), Link(latency=5.0)), seed=1)


class _Journal(Callback):
    def __init__(self, saves=None) -> None:
        self.replicas, self.losses, self.metrics = {}, {}, {}
        self.saves = saves

    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx) -> None:
        k = trainer.global_step
        self.replicas[k] = trainer.strategy.replicas.clone()
        self.losses[k] = outputs["loss"].item()
        self.metrics[k] = trainer.strategy.metrics()
        if self.saves is not None:
            trainer.save_checkpoint(self.saves / f"{k}.ckpt")

    def on_validation_end(self, trainer, pl_module) -> None:
        self.metrics[trainer.global_step, "val"] = trainer.callback_metrics["val/loss"].item()


@pytest.mark.parametrize(
    ("name", "interruptions"), [("loscar", range(1, STEPS + 1)), ("overwrite", [3, 8, 16, 17]), ("diloco", [6, 7, 10])]
)
def test_a_run_continues_bit_for_bit_from_every_step(classifier, images, quiet, tmp_path, name, interruptions):
    def run(**arguments):
        journal = _Journal(arguments.pop("saves", None))
        trainer = quiet(
            strategy=_strategy(METHODS[name]()),
            max_steps=STEPS,
            callbacks=[journal, LogicalTimeMonitor()],
            val_check_interval=2,
            check_val_every_n_epoch=None,
        )
        module = classifier("adamw", schedule=True)
        trainer.fit(module, images(shuffle=True), images(), **arguments)
        final = ([p.clone() for p in module.state_dict().values()], trainer.optimizers[0].state_dict())
        return journal, final, trainer.strategy.logical_time

    whole, final, time = run(saves=tmp_path)
    for k in interruptions:
        resumed, final_again, time_again = run(ckpt_path=tmp_path / f"{k}.ckpt")
        assert set(resumed.replicas) == set(range(k + 1, STEPS + 1))
        for step, replicas in resumed.replicas.items():
            assert torch.equal(replicas, whole.replicas[step]), f"resumed at {k}: replicas differ after step {step}"
            assert resumed.losses[step] == whole.losses[step]
        assert all(whole.metrics[key] == value for key, value in resumed.metrics.items())
        assert all(map(torch.equal, final[0], final_again[0]))
        torch.testing.assert_close(final[1], final_again[1], rtol=0, atol=0)
        assert time == time_again


def test_a_checkpoint_in_the_middle_of_a_message_holds_what_was_read(classifier, images, quiet, tmp_path):
    trainer = quiet(strategy=_strategy(METHODS["loscar"]()), max_steps=9)
    trainer.fit(classifier(), images())
    local = trainer.strategy.local
    assert local.round.snapshot <= local.logical_time < local.round.end
    trainer.save_checkpoint(tmp_path / "9.ckpt")
    message = torch.load(tmp_path / "9.ckpt")["lightning_async"]["local"]["message"]
    assert message["values"].shape == (3, local.round.coordinates)


def test_a_plain_trainer_loads_a_checkpoint_and_finds_the_average(classifier, images, quiet, tmp_path):
    trainer = quiet(strategy=_strategy(METHODS["loscar"]()), max_steps=9)
    module = classifier()
    trainer.fit(module, images())
    trainer.save_checkpoint(tmp_path / "9.ckpt")
    saved = torch.load(tmp_path / "9.ckpt")["state_dict"]
    average = trainer.strategy.replicas.mean(0)
    flat = torch.cat([saved[name].flatten() for name, _ in module.named_parameters()])
    torch.testing.assert_close(flat, average, rtol=0, atol=1e-7)
    plain = quiet(max_steps=12)
    plain.fit(classifier(), images(), ckpt_path=tmp_path / "9.ckpt")
    assert plain.global_step == 12


def test_a_checkpoint_of_a_plain_trainer_starts_all_replicas_with_its_weights_and_momenta(
    classifier, images, quiet, tmp_path
):
    plain = quiet(max_steps=5)
    module = classifier("momentum")
    plain.fit(module, images())
    plain.save_checkpoint(tmp_path / "plain.ckpt")
    first: list[torch.Tensor] = []

    class Look(Callback):
        def on_train_start(self, trainer, pl_module) -> None:
            states = trainer.strategy.local.replicas.state_dict()["optimizers"]
            momenta = [state[0]["momentum_buffer"].clone() for state in states]
            first.extend([trainer.strategy.replicas.clone(), *momenta])

    strategy = _strategy(METHODS["loscar"]())
    with pytest.warns(UserWarning, match="written without LocalSGDStrategy"):
        quiet(strategy=strategy, max_steps=8, callbacks=[Look()]).fit(
            classifier("momentum"), images(), ckpt_path=tmp_path / "plain.ckpt"
        )
    weights = torch.cat([p.detach().flatten() for p in module.parameters()])
    assert torch.equal(first[0], weights.expand(3, -1))
    expected = plain.optimizers[0].state_dict()["state"][0]["momentum_buffer"]
    assert all(torch.equal(momentum, expected) for momentum in first[1:])
    assert strategy.local.completed == 3


def test_another_method_does_not_continue_a_run(classifier, images, quiet, tmp_path):
    trainer = quiet(strategy=_strategy(METHODS["loscar"]()), max_steps=3)
    trainer.fit(classifier(), images())
    trainer.save_checkpoint(tmp_path / "3.ckpt")
    other = quiet(strategy=_strategy(LOSCAR(0.4, compute_window=4.0)), max_steps=6)
    with pytest.raises(MisconfigurationException, match=r"method = LOSCAR\(sparsity=0\.3"):
        other.fit(classifier(), images(), ckpt_path=tmp_path / "3.ckpt")


def test_a_second_fit_goes_on_with_the_replicas(classifier, images, quiet):
    def run(*limits):
        module = classifier("sgd")  # a new fit begins with a new optimizer, as with any strategy
        trainer = quiet(strategy=_strategy(METHODS["loscar"]()), max_steps=limits[0])
        for limit in limits:
            trainer.fit_loop.epoch_loop.max_steps = limit
            trainer.fit(module, images())
        return trainer.strategy.replicas

    assert torch.equal(run(9, 20), run(20))


def test_a_second_fit_of_other_weights_begins_anew(classifier, images, quiet):
    module = classifier("sgd")
    trainer = quiet(strategy=_strategy(METHODS["loscar"]()), max_steps=9)
    trainer.fit(module, images())
    with torch.no_grad():
        module.network[0].weight.zero_()
    trainer.fit_loop.epoch_loop.max_steps = 10
    with pytest.warns(UserWarning, match="weights were changed"):
        trainer.fit(module, images())
    assert trainer.strategy.local.completed == 1


def test_a_second_fit_of_weights_that_lie_in_another_order_says_that_it_keeps_the_first_one(classifier, images, quiet):
    module = classifier("sgd")
    weight = module.network[5].weight
    trainer = quiet(strategy=_strategy(METHODS["loscar"]()), max_steps=9)
    trainer.fit(module, images())
    before = weight.stride()
    weight.data = weight.data.t().contiguous().t()
    trainer.fit_loop.epoch_loop.max_steps = 10
    with pytest.warns(UserWarning, match="lie in memory in another order than in the last fit"):
        trainer.fit(module, images())
    assert weight.stride() == before
    assert trainer.strategy.local.completed == 10


_DAMAGES = {
    "a row is missing": (lambda s: s.update(parameters=s["parameters"][:1]), r"parameters .* shape \(1, 183\) instead"),
    "a buffer": (lambda s: s["buffers"].__setitem__(0, s["buffers"][0][:1]), r"buffer 'running_mean' .* \(1, 3\) inst"),
    "an optimizer": (lambda s: s["optimizers"].pop(), "2 optimizer states"),
    "the last": (lambda s: s.update(last=17), "replica 17 was the last, of 3"),
}


@pytest.mark.parametrize("damage", _DAMAGES)
def test_replicas_that_are_not_whole_are_refused(classifier, images, quiet, tmp_path, damage):
    trainer = quiet(strategy=_strategy(METHODS["loscar"]()), max_steps=3)
    trainer.fit(classifier(), images())
    trainer.save_checkpoint(tmp_path / "3.ckpt")
    state = torch.load(tmp_path / "3.ckpt")
    inflict, message = _DAMAGES[damage]
    inflict(state["lightning_async"]["local"]["replicas"])
    torch.save(state, tmp_path / "3.ckpt")
    other = quiet(strategy=_strategy(METHODS["loscar"]()), max_steps=6)
    with pytest.raises(MisconfigurationException, match=f"cannot be continued: .*{message}"):
        other.fit(classifier(), images(), ckpt_path=tmp_path / "3.ckpt")
