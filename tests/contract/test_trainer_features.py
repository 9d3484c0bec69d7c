"""Everything else a Trainer does works, and changes nothing that it should not change."""

from pathlib import Path

import pytest
import torch
from contract_battery.classifier import Classifier
from contract_battery.images import loader, validation_loader
from contract_battery.running import differences, outcome, progress, quiet, uneven_cluster
from contract_battery.table import REGISTERED_OWN
from contract_battery.training import every_method, every_shape, jobs_of, strategy_of, train
from lightning.pytorch.callbacks import (
    ModelCheckpoint,
)

from lightning_async import ParameterServerStrategy
from lightning_async.methods import RennalaSGD


@every_shape
@pytest.mark.parametrize(
    ("arguments", "of_an_epoch"),
    [
        ({"limit_train_batches": 1}, lambda steps: 1),
        ({"limit_train_batches": 0.5}, lambda steps: max(int(0.5 * steps), 1 if steps == 1 else 0)),
        ({"overfit_batches": 1}, lambda steps: 1),
        ({"reload_dataloaders_every_n_epochs": 1}, lambda steps: steps),
        ({"profiler": "simple"}, lambda steps: steps),
        ({"detect_anomaly": True}, lambda steps: steps),
        ({"num_sanity_val_steps": 2}, lambda steps: steps),
        ({"barebones": True, "log_every_n_steps": 0, "num_sanity_val_steps": 0}, lambda steps: steps),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_epochs_have_the_steps_that_the_trainer_is_asked_for(name: str, arguments, of_an_epoch) -> None:
    steps = max(1, 7 // jobs_of(name))
    if arguments.get("limit_train_batches") == 0.5 and steps == 1:
        arguments = {"limit_train_batches": 1}
    trainer = quiet(strategy=strategy_of(name), max_epochs=2, **arguments)
    trainer.fit(Classifier(), loader(shuffle=True), validation_loader())
    assert trainer.global_step == 2 * of_an_epoch(steps)
    assert progress(trainer.strategy)["progress"][1] == trainer.global_step


@every_method
def test_fast_dev_run(name: str) -> None:
    trainer = quiet(strategy=strategy_of(name), fast_dev_run=True)
    trainer.fit(Classifier(), loader(), validation_loader())
    assert trainer.global_step == 1
    assert "val/loss" in trainer.callback_metrics


@every_shape
def test_an_epoch_that_is_cut_short_sees_the_same_data_in_each_pass(name: str) -> None:
    class Seeing(Classifier):
        def __init__(self) -> None:
            super().__init__()
            self.seen: list[float] = []

        def training_step(self, batch, batch_idx):
            self.seen.append(batch[0].sum().item())
            return super().training_step(batch, batch_idx)

    module = Seeing()
    quiet(strategy=strategy_of(name), max_epochs=3, overfit_batches=1).fit(module, loader())
    m = jobs_of(name)
    assert module.seen == module.seen[:m] * (REGISTERED_OWN[name].jobs(3) // m)
    assert len(set(module.seen)) == m


@every_shape
def test_reloading_the_data_does_not_go_back_to_their_beginning(name: str) -> None:
    results = [train(name, max_steps=9, data=loader(), reload_dataloaders_every_n_epochs=n) for n in (0, 1)]
    assert differences(*map(outcome, results)) == []


class Silent(Classifier):
    """Logs nothing: there is less to compile."""

    def training_step(self, batch, batch_idx):
        return self.loss(batch)


@every_method
def test_a_compiled_module_trains_as_the_plain_one(name: str) -> None:
    data = loader(size=12)  # batches of one shape: nothing is compiled twice
    plain = train(name, Silent("momentum", dropout=0.3), data=data)
    torch._dynamo.reset()
    compiled = train(name, torch.compile(Silent("momentum", dropout=0.3), backend="eager"), data=data)
    for one, other in zip(plain.lightning_module.parameters(), compiled.lightning_module.parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6)
    assert outcome(plain)["progress"] == outcome(compiled)["progress"]


@every_method
def test_fitting_twice_is_fitting_once(name: str) -> None:
    once = train(name, Classifier(dropout=0.3), max_steps=9, data=loader(shuffle=True))
    module, data = Classifier(dropout=0.3), loader(shuffle=True)
    twice = train(name, module, max_steps=4, data=data)
    twice.fit_loop.epoch_loop.max_steps = 9
    twice.fit(module, data)
    assert differences(outcome(once), outcome(twice)) == []


@every_shape
def test_another_module_in_the_same_trainer_starts_anew(name: str) -> None:
    trainer = train(name, max_steps=4)
    trainer.fit_loop.epoch_loop.max_steps = 9
    trainer.fit(Classifier("momentum", dropout=0.3), loader(shuffle=True))
    fresh = train(name, max_steps=5, data=loader(shuffle=True))
    ours, theirs = outcome(trainer), outcome(fresh)
    assert (ours.pop("global_step"), theirs.pop("global_step")) == (9, 5)
    assert differences(theirs, ours) == []


@every_method
def test_validating_and_testing_are_those_of_a_plain_trainer(name: str) -> None:
    module = Classifier()
    results = []
    for arguments in ({}, {"strategy": strategy_of(name)}):
        trainer = quiet(**arguments)
        results.append([trainer.validate(module, validation_loader(), verbose=False)])
        results[-1].append(trainer.test(module, validation_loader(), verbose=False))
    assert results[0] == results[1]


@every_shape
def test_validating_between_fits_changes_nothing(name: str) -> None:
    module, data = Classifier(dropout=0.3), loader(shuffle=True)
    trainer = train(name, module, max_steps=4, data=data)
    trainer.validate(module, validation_loader(), verbose=False)
    trainer.fit_loop.epoch_loop.max_steps = 9
    trainer.fit(module, data)
    once = train(name, Classifier(dropout=0.3), max_steps=9, data=loader(shuffle=True))
    assert differences(outcome(once), outcome(trainer)) == []


@every_method
def test_bf16(name: str) -> None:
    single = train(name)
    mixed = train(name, precision="bf16-mixed")
    one, other = (t.lightning_module.network.head.weight for t in (single, mixed))
    assert other.dtype == torch.float32
    torch.testing.assert_close(one, other, rtol=0.2, atol=0.1)
    assert not torch.equal(one, other)


@every_shape
def test_a_schedule_that_asks_for_the_length_of_the_run_is_resumed(name: str, tmp_path: Path) -> None:
    class Asking(Classifier):
        def configure_optimizers(self):
            optimizer = torch.optim.AdamW(self.parameters(), lr=0.02)
            steps = self.trainer.estimated_stepping_batches
            schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.1, total_iters=int(steps))
            return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}

    def run(folder: str, checkpoint: Path | None = None):
        saving = ModelCheckpoint(tmp_path / folder, "{step}", every_n_train_steps=1, save_top_k=-1)
        data = loader(shuffle=True)
        return train(name, Asking(), 6, data, ckpt_path=checkpoint, callbacks=[saving], enable_checkpointing=True)

    whole = outcome(run("whole"))
    for step in range(1, 6):
        assert differences(whole, outcome(run("resumed", tmp_path / f"whole/step={step}.ckpt"))) == []


def test_a_plateau_schedule_of_the_module() -> None:
    class Plateau(Classifier):
        def configure_optimizers(self):
            optimizer = torch.optim.SGD(self.parameters(), lr=0.1)
            schedule = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=0, threshold=1e9)
            return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "monitor": "val/loss"}}

    trainer = train("rennala_sgd", Plateau(), max_steps=8, validate=True)
    assert trainer.optimizers[0].param_groups[0]["lr"] < 0.1


def test_a_method_object_may_serve_two_strategies() -> None:
    method = RennalaSGD(batch=3)
    results = []
    for _ in range(2):
        trainer = quiet(strategy=ParameterServerStrategy(method, uneven_cluster()), max_steps=5)
        trainer.fit(Classifier(dropout=0.3), loader())
        results.append(outcome(trainer))
    assert differences(*results) == []
