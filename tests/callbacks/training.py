"""A module that remembers its validations, and runs of it."""

from pathlib import Path
from typing import Any

import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.loggers.logger import DummyExperiment, Logger
from torch import Tensor
from torch.utils.data import DataLoader, TensorDataset

from lightning_async import ParameterServerStrategy, SimulatedCluster
from lightning_async.methods import ASGD, Method
from lightning_async.simulation import FixedTimes, WorkerTimes


class Regression(LightningModule):
    """Linear regression with dropout. Remembers step, weights and loss of each validation."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layers = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Dropout(0.3), torch.nn.Linear(4, 1))
        self.validations: list[tuple[int, list[float], float]] = []

    def loss(self, batch: list[Tensor]) -> Tensor:
        x, y = batch
        return torch.nn.functional.mse_loss(self.layers(x), y)

    def training_step(self, batch: list[Tensor], batch_idx: int) -> Tensor:
        loss = self.loss(batch)
        self.log("train/loss", loss)
        return loss

    def validation_step(self, batch: list[Tensor], batch_idx: int) -> None:
        self.log("val/loss", self.loss(batch))

    def on_validation_epoch_end(self) -> None:
        if not self.trainer.sanity_checking:
            loss = self.trainer.callback_metrics["val/loss"].item()
            weights = torch.nn.utils.parameters_to_vector(self.parameters()).tolist()
            self.validations.append((self.trainer.global_step, weights, loss))

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.05, momentum=0.5)

    def data(self, size: int, seed: int) -> TensorDataset:
        generator = torch.Generator().manual_seed(seed)
        x = torch.randn(size, 3, generator=generator)
        return TensorDataset(x, x.sum(1, keepdim=True))

    def train_dataloader(self) -> Any:
        return DataLoader(self.data(20, 1), batch_size=4, shuffle=True)

    def val_dataloader(self) -> Any:
        return DataLoader(self.data(12, 2), batch_size=4)


class Memory(Logger):
    """A logger that keeps what it is given."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: list[tuple[int | None, dict[str, float]]] = []

    name = version = "memory"

    @property
    def experiment(self) -> Any:
        return DummyExperiment()

    def log_metrics(self, metrics: dict[str, float], step: int | None = None) -> None:
        self.rows.append((step, dict(metrics)))

    def log_hyperparams(self, *args: Any, **kwargs: Any) -> None:
        pass

    def with_key(self, key: str) -> list[dict[str, float]]:
        return [row for _, row in self.rows if key in row]


class SaveAt(Callback):
    """Saves a checkpoint after every step, before its validation, and after every validation."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def on_train_batch_end(self, trainer: Trainer, *args: Any) -> None:
        trainer.save_checkpoint(self.after_step(trainer.global_step))

    def on_validation_end(self, trainer: Trainer, *args: Any) -> None:
        if not trainer.sanity_checking:
            trainer.save_checkpoint(self.after_validation(trainer.global_step))

    def after_step(self, step: int) -> Path:
        return self.folder / f"step-{step}.ckpt"

    def after_validation(self, step: int) -> Path:
        return self.folder / f"validation-{step}.ckpt"


def strategy_of(method: Method | None = None, times: WorkerTimes | None = None, **kwargs: Any) -> Any:
    cluster = SimulatedCluster(times or FixedTimes([1.0, 2.5, 3.3]), **kwargs)
    return ParameterServerStrategy(method or ASGD(), cluster)


def trainer_of(
    *callbacks: Callback, method: Method | None = None, times: WorkerTimes | None = None, **kwargs: Any
) -> Trainer:
    arguments: dict[str, Any] = {
        "strategy": strategy_of(method, times),
        "max_epochs": -1,
        "max_steps": 20,
        "check_val_every_n_epoch": None,
        "val_check_interval": 1,
        "num_sanity_val_steps": 0,
        "accelerator": "cpu",
        "logger": False,
        "enable_checkpointing": False,
        "enable_progress_bar": False,
        "enable_model_summary": False,
    }
    return Trainer(callbacks=list(callbacks), **{**arguments, **kwargs})


def step_times(method: Method, times: WorkerTimes, count: int) -> list[float]:
    """Logical times of the first steps."""
    return [step.time for step, _ in zip(method.steps(SimulatedCluster(times)), range(count), strict=False)]
