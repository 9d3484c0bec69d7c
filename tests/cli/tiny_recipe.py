"""A recipe small enough to be run many times: linear regression on fixed random data."""

import os
import threading
from pathlib import Path

import torch
from lightning.pytorch import LightningDataModule, LightningModule
from lightning.pytorch.utilities.types import OptimizerLRScheduler
from torch import Tensor
from torch.utils.data import DataLoader, TensorDataset

HANGING = "TINY_RECIPE_HANGING"  # names a file that is made when a run hangs; without it none hangs


class TinyModule(LightningModule):
    """Args: step at which to hang for ever, step at which to raise, factor on the loss (large ones diverge)."""

    def __init__(self, hang_at: int = -1, fail_at: int = -1, factor: float = 1.0) -> None:
        super().__init__()
        self.hang_at, self.fail_at, self.factor = hang_at, fail_at, factor
        self.layer = torch.nn.Linear(4, 1)
        self.calls = 0

    def error(self, batch: list[Tensor]) -> Tensor:
        return (self.layer(batch[0]) - batch[1]).square().mean()

    def training_step(self, batch: list[Tensor], batch_idx: int) -> Tensor:
        if self.trainer.global_step == self.hang_at and HANGING in os.environ:
            Path(os.environ[HANGING]).touch()
            threading.Event().wait()
        if self.trainer.global_step == self.fail_at:
            raise RuntimeError("no luck today")
        return self.error(batch) * self.factor

    def validation_step(self, batch: list[Tensor], batch_idx: int) -> None:
        self.log("val/loss", self.error(batch))

    def test_step(self, batch: list[Tensor], batch_idx: int) -> None:
        self.log("test/loss", self.error(batch))


class Scheduled(TinyModule):
    """Returns a scheduler, and if asked to, one that needs to know how much data there are."""

    def __init__(self, by_data: bool = False) -> None:
        super().__init__()
        self.by_data = by_data

    def configure_optimizers(self) -> OptimizerLRScheduler:
        optimizer = torch.optim.SGD(self.parameters(), 0.05)
        total = len(self.trainer.datamodule.train_dataloader()) if self.by_data else 100
        return [optimizer], [torch.optim.lr_scheduler.LinearLR(optimizer, total_iters=total)]


class AllFrozen(TinyModule):
    """Has nothing to train."""

    def __init__(self) -> None:
        super().__init__()
        self.requires_grad_(False)


class Interrupted(TinyModule):
    """Somebody presses Ctrl-C in the fifth step."""

    def training_step(self, batch: list[Tensor], batch_idx: int) -> Tensor:
        if self.trainer.global_step == 4:
            raise KeyboardInterrupt
        return super().training_step(batch, batch_idx)


class OtherNames(TinyModule):
    """Calls what it measures by another name."""

    def validation_step(self, batch: list[Tensor], batch_idx: int) -> None:
        self.log("val/mse", self.error(batch))


class NotMeasurable(TinyModule):
    """Fails before anything is measured."""

    def validation_step(self, batch: list[Tensor], batch_idx: int) -> None:
        raise RuntimeError("nothing to measure")


class TinyData(LightningDataModule):
    data_name = "tiny random regression"

    def loader(self, shuffle: bool = False) -> DataLoader[tuple[Tensor, ...]]:
        generator = torch.Generator().manual_seed(0)
        x = torch.randn(64, 4, generator=generator)
        y = x.sum(1, keepdim=True) + 0.1 * torch.randn(64, 1, generator=generator)
        return DataLoader(TensorDataset(x, y), batch_size=8, shuffle=shuffle)

    def train_dataloader(self) -> DataLoader[tuple[Tensor, ...]]:
        return self.loader(shuffle=True)

    def val_dataloader(self) -> DataLoader[tuple[Tensor, ...]]:
        return self.loader()

    def test_dataloader(self) -> DataLoader[tuple[Tensor, ...]]:
        return self.loader()
