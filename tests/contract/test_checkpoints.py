"""What is in a checkpoint, who can read it, and what it may be continued with."""

import warnings
from pathlib import Path

import pytest
import torch
from contract_battery.classifier import Classifier
from contract_battery.images import loader
from contract_battery.running import differences, outcome, progress, quiet, uneven_cluster
from contract_battery.table import OWN, REGISTERED_OWN, SERVER_ONES
from lightning.fabric.utilities.exceptions import MisconfigurationException
from lightning.pytorch.callbacks import ModelCheckpoint, OnExceptionCheckpoint

from lightning_async import Link, ParameterServerStrategy, SimulatedCluster
from lightning_async.data import Dirichlet
from lightning_async.methods import ASGD, ClippedASGD, RennalaSGD
from lightning_async.simulation import FixedTimes

KEY = "lightning_async"


def strategy_of(name: str, **arguments):
    contract = OWN[name]
    return contract.build(**arguments)


def fit(strategy, module=None, max_steps=6, callbacks=(), ckpt_path=None, data=None, **arguments):
    if strategy is not None:
        arguments["strategy"] = strategy
    trainer = quiet(max_steps=max_steps, callbacks=list(callbacks), **arguments)
    module = module if module is not None else Classifier("adamw", dropout=0.3, schedule=True)
    trainer.fit(module, data if data is not None else loader(shuffle=True), ckpt_path=ckpt_path)
    return trainer


def saved(strategy, path: str = "a.ckpt", **arguments) -> str:
    fit(strategy, **arguments).save_checkpoint(path)
    return path


@pytest.mark.parametrize("name", OWN)
def test_loads_with_the_default_arguments_of_torch(name: str) -> None:
    state = torch.load(saved(strategy_of(name)))
    assert state["global_step"] == 6
    assert KEY in state


def test_loads_with_the_default_arguments_of_torch_when_workers_own_their_data() -> None:
    state = torch.load(saved(strategy_of("rennala_sgd", partition=Dirichlet(alpha=0.5))))
    assert len(state[KEY]["data"]) > 1


@pytest.mark.parametrize("name", REGISTERED_OWN)
def test_goes_on_in_a_plain_trainer(name: str) -> None:
    path = saved(strategy_of(name))
    trainer = fit(None, max_steps=10, ckpt_path=path)
    assert trainer.global_step == 10
    assert trainer.lr_scheduler_configs[0].scheduler.last_epoch == 10


@pytest.mark.parametrize("name", REGISTERED_OWN)
def test_weights_load_into_a_module(name: str) -> None:
    trainer = fit(strategy_of(name))
    trainer.save_checkpoint("a.ckpt")
    loaded = Classifier.load_from_checkpoint("a.ckpt")
    assert differences(dict(trainer.lightning_module.state_dict()), dict(loaded.state_dict())) == []


@pytest.mark.parametrize("name", REGISTERED_OWN)
def test_a_plain_checkpoint_starts_the_schedule_with_a_warning(name: str) -> None:
    path = saved(None)
    strategy = strategy_of(name)
    with pytest.warns(UserWarning, match="schedule starts at step 0"):
        trainer = fit(strategy, max_steps=10, ckpt_path=path)
    assert trainer.global_step == 10
    assert progress(strategy)["progress"][1] == 4
    if name in SERVER_ONES:
        assert trainer.optimizers[0].state[next(trainer.lightning_module.parameters())]["step"] == 10


def test_a_run_that_began_from_a_plain_checkpoint_is_resumed() -> None:
    plain = saved(None)
    with pytest.warns(UserWarning, match="schedule starts at step 0"):
        whole = fit(strategy_of("rennala_sgd"), max_steps=12, ckpt_path=plain)
    with pytest.warns(UserWarning, match="schedule starts at step 0"):
        path = saved(strategy_of("rennala_sgd"), path="b.ckpt", max_steps=9, ckpt_path=plain)
    resumed = fit(strategy_of("rennala_sgd"), max_steps=12, ckpt_path=path)
    assert differences(outcome(whole), outcome(resumed)) == []


OTHERS = {
    "method": lambda: ParameterServerStrategy(ClippedASGD(clip=0.5), uneven_cluster()),
    "cluster": lambda: ParameterServerStrategy(ASGD(), SimulatedCluster(FixedTimes([1.0, 2.0]))),
    "link": lambda: ParameterServerStrategy(ASGD(), SimulatedCluster(uneven_cluster().times, Link(latency=0.5))),
    "seed of the cluster": lambda: ParameterServerStrategy(ASGD(), SimulatedCluster(uneven_cluster().times, seed=1)),
    "seed": lambda: ParameterServerStrategy(ASGD(), uneven_cluster(), seed=1),
    "partition": lambda: ParameterServerStrategy(ASGD(), uneven_cluster(), partition=Dirichlet(alpha=1.0)),
}


@pytest.mark.parametrize("other", OTHERS)
def test_a_checkpoint_of_another_run_is_refused_with_the_remedy(other: str) -> None:
    path = saved(strategy_of("asgd"))
    with pytest.raises(MisconfigurationException, match=r"Resume with the same .*load_from_checkpoint"):
        fit(OTHERS[other](), max_steps=10, ckpt_path=path)


def test_two_limits_are_refused_when_resuming() -> None:
    path = saved(strategy_of("asgd"))
    with pytest.raises(MisconfigurationException, match="max_epochs=-1 beside max_steps, or max_epochs alone"):
        fit(strategy_of("asgd"), max_steps=10, max_epochs=3, ckpt_path=path)


@pytest.mark.parametrize("name", OWN)
def test_the_last_checkpoint_of_a_finished_run_is_continued(name: str) -> None:
    whole = fit(strategy_of(name), max_steps=11)
    resumed = fit(strategy_of(name), max_steps=11, ckpt_path=saved(strategy_of(name), max_steps=7))
    assert differences(outcome(whole), outcome(resumed)) == []


def test_epochs_as_the_only_limit_are_resumed(tmp_path: Path) -> None:
    def run(folder: str, checkpoint: Path | None = None):
        saving = ModelCheckpoint(tmp_path / folder, "{step}", every_n_train_steps=1, save_top_k=-1)
        return fit(
            strategy_of("rennala_sgd"),
            max_steps=-1,
            max_epochs=4,
            callbacks=[saving],
            enable_checkpointing=True,
            ckpt_path=checkpoint,
        )

    whole = run("whole")
    assert whole.global_step == 8
    for step in range(1, 8):
        assert differences(outcome(whole), outcome(run("resumed", tmp_path / f"whole/step={step}.ckpt"))) == []


class Failing(Classifier):
    """Raises at its n-th training step."""

    failing_call = -1

    def training_step(self, batch, batch_idx):
        self.failing_call -= 1
        if self.failing_call == 0:
            raise KeyboardInterrupt if self.interrupts else RuntimeError("no luck today")
        return super().training_step(batch, batch_idx)

    interrupts = False


def failing(call: int) -> Failing:
    module = Failing("adamw", dropout=0.3, schedule=True)
    module.failing_call = call
    return module


def newest_iterate(name: str, steps: int):
    return dict(fit(strategy_of(name), max_steps=steps).lightning_module.named_parameters())


@pytest.mark.parametrize("position", [0, 1])
@pytest.mark.parametrize("name", OWN)
def test_an_exception_in_a_job_leaves_the_newest_iterate(name: str, position: int, tmp_path: Path) -> None:
    strategy, jobs = strategy_of(name), OWN[name].jobs
    several = jobs(6) - jobs(5) > 1
    steps = 5 + (0 if several else position)
    module = failing(jobs(steps) + 1 + (position if several else 0))
    saving = OnExceptionCheckpoint(tmp_path, "exception")
    with pytest.raises(RuntimeError, match="no luck today"):
        fit(strategy, module, max_steps=20, callbacks=[saving], enable_checkpointing=True)
    weights = torch.load(tmp_path / "exception.ckpt")["state_dict"]
    for key, expected in newest_iterate(name, steps).items():
        assert torch.equal(weights[key], expected)
        assert torch.equal(module.state_dict()[key], expected)


@pytest.mark.parametrize("name", OWN)
def test_a_run_goes_on_from_the_checkpoint_of_an_exception(name: str, tmp_path: Path) -> None:
    whole = fit(strategy_of(name), max_steps=10)
    strategy = strategy_of(name)
    module = failing(OWN[name].jobs(5) + 1)
    saving = OnExceptionCheckpoint(tmp_path, "exception")
    with pytest.raises(RuntimeError, match="no luck today"):
        fit(strategy, module, max_steps=10, callbacks=[saving], enable_checkpointing=True)
    resumed = fit(strategy_of(name), max_steps=10, ckpt_path=tmp_path / "exception.ckpt")
    assert differences(outcome(whole), outcome(resumed)) == []


class FailingUpdate(Classifier):
    def on_before_optimizer_step(self, optimizer) -> None:
        if self.trainer.global_step == 4:
            raise KeyError("no luck today")


def test_an_exception_in_the_middle_of_an_update_leaves_a_checkpoint_that_says_so(tmp_path: Path) -> None:
    saving = OnExceptionCheckpoint(tmp_path, "failed")
    with pytest.raises(KeyError, match="no luck"):
        fit(strategy_of("asgd"), FailingUpdate(), max_steps=6, callbacks=[saving], enable_checkpointing=True)
    with pytest.raises(MisconfigurationException, match=r"cannot be continued: .*in the middle of step 4, .*weights"):
        fit(strategy_of("asgd"), max_steps=10, ckpt_path=tmp_path / "failed.ckpt")


def test_no_state_of_an_earlier_run_reaches_a_checkpoint_of_weights_only(tmp_path: Path) -> None:
    saving = ModelCheckpoint(tmp_path, "{step}", every_n_train_steps=2, save_weights_only=True)
    fit(strategy_of("asgd"), callbacks=[saving], enable_checkpointing=True)
    assert KEY not in torch.load(next(tmp_path.glob("*.ckpt")))


def test_a_checkpoint_of_an_earlier_step_is_loaded_by_the_same_trainer() -> None:
    early = saved(strategy_of("rennala_sgd"), max_steps=4)
    whole = fit(strategy_of("rennala_sgd"), max_steps=9)
    trainer = fit(strategy_of("rennala_sgd"), max_steps=9)
    trainer.fit(trainer.lightning_module, loader(shuffle=True), ckpt_path=early)
    assert differences(outcome(whole), outcome(trainer)) == []


def test_the_size_of_a_checkpoint_follows_the_iterates_in_use() -> None:
    asgd = torch.load(saved(strategy_of("asgd")))[KEY]["server"]["versions"]
    rennala = torch.load(saved(ParameterServerStrategy(RennalaSGD(batch=2), uneven_cluster())))[KEY]["server"][
        "versions"
    ]
    assert 1 <= len(asgd) <= 3
    assert rennala == {}


def without(*path):
    def damage(state) -> None:
        for key in path[:-1]:
            state = state[key]
        del state[path[-1]]

    return damage


def completed(value):
    def damage(state) -> None:
        state["server"]["completed"] = value

    return damage


def position(value):
    def damage(state) -> None:
        state["data"][-1] = value

    return damage


DAMAGES = {
    "a position that is none": (position(3), "the position in the data, 3 of stream -1, is none"),
    "a negative position": (position((0, -2)), "the position in the data"),
    "no run": (without("run"), "has no 'run'"),
    "no schedule": (without("server"), "has no 'server'"),
    "no positions": (without("data"), "has no 'data'"),
    "no count": (without("server", "completed"), "is None"),
    "no iterates": (without("server", "versions"), "has no 'versions'"),
    "a negative count": (completed(-1), "is -1"),
    "a count that is a fraction": (completed(1.5), "is 1.5"),
    "a count of another step": (completed(4), "has made 4 steps, and the Trainer is at step 6"),
    "a count beyond the weights": (completed(9), "has made 9 steps, and the Trainer is at step 6"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_checkpoint_is_refused_with_what_is_wrong(damage: str) -> None:
    path = saved(strategy_of("clipped_asgd"))
    state = torch.load(path)
    inflict, message = DAMAGES[damage]
    inflict(state[KEY])
    torch.save(state, path)
    with pytest.raises(MisconfigurationException, match=f"damaged or was edited.*{message}.*load_from_checkpoint"):
        fit(strategy_of("clipped_asgd"), max_steps=10, ckpt_path=path)


def test_changed_data_are_named_when_a_run_is_resumed() -> None:
    path = saved(strategy_of("clipped_asgd"))
    before = loader()
    changed = loader(batch_size=before.batch_size + 1)
    message = f"batch_size={before.batch_size}, samples=.*batch_size={changed.batch_size}, samples="
    with pytest.warns(UserWarning, match=message):
        fit(strategy_of("clipped_asgd"), max_steps=10, ckpt_path=path, data=changed)


def test_a_checkpoint_that_does_not_know_its_data_is_resumed() -> None:
    path = saved(strategy_of("clipped_asgd"))
    state = torch.load(path)
    del state[KEY]["size"], state[KEY]["started_at"]
    torch.save(state, path)
    whole = fit(strategy_of("clipped_asgd"), max_steps=10)
    resumed = fit(strategy_of("clipped_asgd"), max_steps=10, ckpt_path=path)
    assert differences(outcome(whole), outcome(resumed)) == []


def messages(name: str | None, path: str) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fit(strategy_of(name) if name else None, max_steps=10, ckpt_path=path)
    return [str(warning.message) for warning in caught]


def test_nothing_is_said_of_positions_that_are_kept() -> None:
    path = saved(strategy_of("clipped_asgd"), max_steps=5)
    assert not any(
        "not resumable" in message or "training data" in message for message in messages("clipped_asgd", path)
    )
    assert any("not resumable" in message for message in messages(None, path))  # of a plain Trainer it is still said
