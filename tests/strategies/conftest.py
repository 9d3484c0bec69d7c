"""A module with BatchNorm and dropout, its data, and a quiet Trainer."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from lightning.pytorch import LightningModule, Trainer
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, TensorDataset

OPTIMIZERS: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "sgd": lambda parameters: torch.optim.SGD(parameters, lr=0.1),
    "momentum": lambda parameters: torch.optim.SGD(parameters, lr=0.1, momentum=0.9, weight_decay=0.01),
    "adamw": lambda parameters: torch.optim.AdamW(parameters, lr=0.02),
    "adagrad": lambda parameters: torch.optim.Adagrad(parameters, lr=0.05),  # has state before its first step
}


class Classifier(LightningModule):
    def __init__(self, optimizer: str = "momentum", dropout: float = 0.4, schedule: bool = False) -> None:
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(0)
            self.network = nn.Sequential(
                nn.Conv2d(1, 3, 3, padding=1), nn.BatchNorm2d(3), nn.ReLU(), nn.Flatten(), nn.Dropout(dropout),
                nn.Linear(48, 3),
            )  # fmt: skip
        self.optimizer_name = optimizer
        self.schedule = schedule

    def loss(self, batch: list[Tensor]) -> Tensor:
        x, y = batch
        return cross_entropy(self.network(x), y)

    def training_step(self, batch: list[Tensor], batch_idx: int) -> Tensor:
        loss = self.loss(batch)
        self.log("train/loss", loss)
        return loss

    def validation_step(self, batch: list[Tensor], batch_idx: int) -> None:
        self.log("val/loss", self.loss(batch))

    def configure_optimizers(self) -> Any:
        optimizer = OPTIMIZERS[self.optimizer_name](self.parameters())
        if not self.schedule:
            return optimizer
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=3, gamma=0.8)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": scheduler, "interval": "step"}}


@pytest.fixture
def classifier() -> type[Classifier]:
    return Classifier


@pytest.fixture
def images() -> Callable[..., DataLoader]:
    generator = torch.Generator().manual_seed(3)
    data = TensorDataset(torch.randn(13, 1, 4, 4, generator=generator), torch.arange(13) % 3)

    def loader(**arguments: Any) -> DataLoader:
        return DataLoader(data, **{"batch_size": 3, **arguments})

    return loader


@pytest.fixture
def quiet(tmp_path: Path) -> Callable[..., Trainer]:
    def make(**arguments: Any) -> Trainer:
        silent = {
            "accelerator": "cpu",
            "devices": 1,
            "logger": False,
            "enable_checkpointing": False,
            "enable_progress_bar": False,
            "enable_model_summary": False,
            "num_sanity_val_steps": 0,
            "log_every_n_steps": 1,
            "default_root_dir": tmp_path,
        }
        if "max_steps" in arguments:
            silent["max_epochs"] = -1
        return Trainer(**{**silent, **arguments})

    return make
