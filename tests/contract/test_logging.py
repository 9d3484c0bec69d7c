"""What loggers, progress bars and file names see: server updates, and means over the jobs of a step."""

from itertools import cycle, islice, pairwise
from pathlib import Path

import pytest
import torch
from contract_battery.classifier import Classifier
from contract_battery.images import loader, validation_loader
from contract_battery.running import MemoryLogger, progress, quiet, uneven_cluster
from contract_battery.table import REGISTERED_OWN
from lightning.pytorch.callbacks import LearningRateMonitor, ModelCheckpoint
from torchmetrics.classification import MulticlassAccuracy

from lightning_async import ParameterServerStrategy
from lightning_async.methods import DelayAdaptiveASGD, RennalaSGD


class Recording(Classifier):
    """Logs everything Lightning can log, and writes down what it logged."""

    def __init__(self) -> None:
        super().__init__(dropout=0.3)
        self.losses: list[float] = []
        self.sizes: list[int] = []
        self.accuracy = MulticlassAccuracy(3)

    def training_step(self, batch, batch_idx):
        x, y = batch
        loss = self.loss(batch)
        self.losses.append(loss.item())
        self.sizes.append(len(x))
        self.log("loss", loss, on_step=True, on_epoch=True)
        self.log("only_step", loss, prog_bar=True)
        self.log("only_epoch", loss, on_step=False, on_epoch=True)
        self.log("largest", loss, on_step=False, on_epoch=True, reduce_fx="max")
        self.accuracy(self.network(x), y)
        self.log("accuracy", self.accuracy, on_step=True, on_epoch=True)
        if len(self.losses) % 2:
            self.log("sometimes", loss)
        return loss


def strategy_of(name: str):
    contract = REGISTERED_OWN[name]
    return contract.build()


def train(strategy, module, steps: int, callbacks=(), **arguments):
    logger = MemoryLogger()
    trainer = quiet(strategy=strategy, max_steps=steps, logger=logger, callbacks=list(callbacks), **arguments)
    trainer.fit(module, loader())
    return trainer, logger


def means_of_steps(name: str, losses: list[float], steps: int) -> list[float]:
    """The mean loss over the jobs of each step."""
    ends = [REGISTERED_OWN[name].jobs(step) for step in range(steps + 1)]
    return [sum(losses[start:end]) / (end - start) for start, end in pairwise(ends)]


@pytest.mark.parametrize("name", REGISTERED_OWN)
def test_step_values_are_means_over_the_jobs_of_the_step(name: str) -> None:
    strategy, module = strategy_of(name), Recording()
    _, logger = train(strategy, module, steps=5)
    means = means_of_steps(name, module.losses, 5)
    assert logger.values("loss_step") == pytest.approx(means)
    assert logger.values("only_step") == pytest.approx(means)
    assert 0 <= min(logger.values("accuracy_step")) <= max(logger.values("accuracy_step")) <= 1


def test_a_value_that_some_jobs_log_is_the_mean_over_those() -> None:
    module = Recording()
    _, logger = train(ParameterServerStrategy(RennalaSGD(batch=3), uneven_cluster()), module, steps=4)
    logged = [[loss for i, loss in enumerate(module.losses) if i // 3 == step and i % 2 == 0] for step in range(4)]
    assert logger.values("sometimes") == pytest.approx([sum(losses) / len(losses) for losses in logged])


@pytest.mark.parametrize("name", REGISTERED_OWN)
def test_epoch_values_are_means_over_all_samples(name: str) -> None:
    strategy, module = strategy_of(name), Recording()
    steps = 7 // (REGISTERED_OWN[name].jobs_per_step or 7)
    trainer, _ = train(strategy, module, steps=steps)
    jobs = REGISTERED_OWN[name].jobs(steps)
    assert len(module.losses) == jobs
    assert module.sizes == list(islice(cycle([2, 2, 2, 2, 2, 2, 1]), jobs))
    mean = sum(loss * size for loss, size in zip(module.losses, module.sizes, strict=True)) / sum(module.sizes)
    metrics = trainer.callback_metrics
    assert metrics["only_epoch"].item() == pytest.approx(mean)
    assert metrics["loss_epoch"].item() == pytest.approx(mean)
    assert metrics["largest"].item() == pytest.approx(max(module.losses))


@pytest.mark.parametrize("name", REGISTERED_OWN)
def test_outputs_hold_the_mean_loss_of_the_jobs(name: str) -> None:
    class Outputs(Recording):
        def __init__(self) -> None:
            super().__init__()
            self.outputs: list[float] = []

        def on_train_batch_end(self, outputs, batch, batch_idx) -> None:
            self.outputs.append(outputs["loss"].item())

    strategy, module = strategy_of(name), Outputs()
    train(strategy, module, steps=4)
    assert module.outputs == pytest.approx(means_of_steps(name, module.losses, 4))


@pytest.mark.parametrize("name", REGISTERED_OWN)
def test_a_module_gets_mini_batches_as_it_knows_them(name: str) -> None:
    class Hooks(Recording):
        def __init__(self) -> None:
            super().__init__()
            self.transferred: list[type] = []

        def on_after_batch_transfer(self, batch, dataloader_idx):
            self.transferred.append(type(batch[0]))
            return batch

    strategy, module = strategy_of(name), Hooks()
    train(strategy, module, steps=3)
    assert module.transferred == [torch.Tensor] * REGISTERED_OWN[name].jobs(3)


@pytest.mark.parametrize("name", REGISTERED_OWN)
def test_global_step_counts_server_updates(name: str, tmp_path: Path) -> None:
    saving = ModelCheckpoint(tmp_path, "{step}", every_n_train_steps=2, save_top_k=-1)
    trainer, logger = train(strategy_of(name), Classifier(schedule=True), 5, [saving], enable_checkpointing=True)
    assert trainer.global_step == progress(trainer.strategy)["progress"][1] == 5
    assert sorted(path.name for path in tmp_path.glob("*.ckpt")) == ["step=2.ckpt", "step=4.ckpt"]
    assert [step for step, _ in logger.rows] == list(range(5))
    assert trainer.lr_scheduler_configs[0].scheduler.last_epoch == 5


@pytest.mark.parametrize("name", REGISTERED_OWN)
def test_step_sizes_of_a_method_are_hidden_from_schedulers_and_monitors(name: str) -> None:
    monitor = LearningRateMonitor("step", log_momentum=True)
    _, logger = train(strategy_of(name), Classifier("momentum", schedule=True), 8, [monitor])
    rates = logger.values("lr-SGD")
    assert rates == pytest.approx([0.1 * 0.8 ** (step // 2) for step in range(8)])
    assert set(logger.values("lr-SGD-momentum")) == {0.9}


def test_the_monitored_run_had_scaled_steps() -> None:
    strategy = strategy_of("delay_adaptive_asgd")
    assert isinstance(strategy.method, DelayAdaptiveASGD)
    schedule = strategy.method.steps(uneven_cluster())
    assert min(strategy.method.lr_multiplier(step) for step, _ in zip(schedule, range(8), strict=False)) < 1


@pytest.mark.parametrize("name", REGISTERED_OWN)
def test_an_epoch_has_as_many_steps_as_the_data_have_groups_of_mini_batches(name: str) -> None:
    strategy = strategy_of(name)
    trainer = quiet(strategy=strategy, max_epochs=2)
    trainer.fit(Classifier(), loader(), validation_loader())
    steps = max(1, 7 // (REGISTERED_OWN[name].jobs_per_step or 1))
    assert trainer.num_training_batches == steps
    assert trainer.global_step == 2 * steps
    assert trainer.estimated_stepping_batches == 2 * steps
