"""Lightning's own callbacks work, and change nothing that they should not change."""

from pathlib import Path

import torch
from contract_battery.classifier import Classifier
from contract_battery.images import loader, validation_loader
from contract_battery.running import differences, outcome, quiet
from contract_battery.training import every_server_method, every_shape, jobs_of, strategy_of, train
from lightning.pytorch.callbacks import (
    BatchSizeFinder,
    Callback,
    EarlyStopping,
    EMAWeightAveraging,
    LearningRateFinder,
    ModelCheckpoint,
)


@every_server_method
def test_averaged_weights_are_validated_and_do_not_disturb_training(name: str) -> None:
    class Losses(Callback):
        def on_validation_epoch_end(self, trainer, pl_module) -> None:
            self.weights = pl_module.network.head.weight.detach().clone()

    seen = Losses()
    averaging = EMAWeightAveraging(decay=0.5)
    plain = train(name, max_steps=7)
    trainer = train(
        name,
        max_steps=7,
        validate=True,
        callbacks=[seen, averaging],
        check_val_every_n_epoch=None,
        val_check_interval=7,
    )
    # At the end of training the average takes the place of the last iterate.
    assert not torch.equal(plain.lightning_module.network.head.weight, trainer.lightning_module.network.head.weight)
    assert torch.equal(seen.weights, trainer.lightning_module.network.head.weight)
    assert differences(outcome(plain)["optimizer"], outcome(trainer)["optimizer"]) == []


@every_server_method
def test_a_run_with_averaged_weights_is_resumed(name: str, tmp_path: Path) -> None:
    def run(folder: str, checkpoint: Path | None = None):
        saving = ModelCheckpoint(tmp_path / folder, "{step}", every_n_train_steps=1, save_top_k=-1)
        return train(
            name,
            max_steps=6,
            validate=True,
            ckpt_path=checkpoint,
            callbacks=[EMAWeightAveraging(decay=0.5), saving],
            enable_checkpointing=True,
            check_val_every_n_epoch=None,
            val_check_interval=2,
        )

    whole = outcome(run("whole"))
    for step in range(1, 6):
        assert differences(whole, outcome(run("resumed", tmp_path / f"whole/step={step}.ckpt"))) == []


@every_shape
def test_early_stopping(name: str) -> None:
    stopping = EarlyStopping("val/loss", patience=1, min_delta=1e9)
    trainer = train(name, max_steps=50, validate=True, callbacks=[stopping], val_check_interval=1.0)
    steps = max(1, 7 // jobs_of(name))
    assert trainer.global_step == 2 * steps


@every_shape
def test_the_learning_rate_finder_leaves_no_trace(name: str) -> None:
    plain = train(name, data=loader(shuffle=True))
    finder = LearningRateFinder(num_training_steps=5, early_stop_threshold=None, update_attr=False)
    found = train(name, data=loader(shuffle=True), callbacks=[finder])
    assert len(finder.optimal_lr.results["loss"]) == 5
    ours, theirs = outcome(found), outcome(plain)
    for result in (ours, theirs):
        for group in result["optimizer"][0]["param_groups"]:
            group.pop("initial_lr", None)
    assert differences(theirs, ours) == []


def test_the_batch_size_finder_leaves_no_trace() -> None:
    class Sized(Classifier):
        batch_size = 2

        def val_dataloader(self):
            return validation_loader()

        def train_dataloader(self):
            return loader(batch_size=self.batch_size)

    trainer = quiet(
        strategy=strategy_of("asgd"),
        max_steps=4,
        callbacks=[BatchSizeFinder(steps_per_trial=2, init_val=4, max_trials=1)],
    )
    module = Sized(dropout=0.3)
    trainer.fit(module)
    assert module.batch_size != 2
    plain = quiet(strategy=strategy_of("asgd"), max_steps=4)
    plain.fit(Classifier(dropout=0.3), loader(batch_size=module.batch_size))
    assert differences(outcome(plain), outcome(trainer)) == []


def test_checkpoints_of_the_best_model_and_the_last(tmp_path: Path) -> None:
    saving = ModelCheckpoint(tmp_path, "{step}", monitor="val/loss", save_top_k=1, save_last=True)
    train("rennala_sgd", max_steps=6, validate=True, callbacks=[saving], enable_checkpointing=True)
    assert Path(saving.best_model_path).is_file()
    resumed = train("rennala_sgd", max_steps=8, validate=True, ckpt_path=tmp_path / "last.ckpt")
    whole = train("rennala_sgd", max_steps=8, validate=True)
    assert differences(outcome(whole), outcome(resumed)) == []
