"""A recipe small enough to be run many times: linear regression on fixed random data."""

import time

import torch
from lightning.pytorch import LightningDataModule, LightningModule
from torch import Tensor
from torch.utils.data import DataLoader, TensorDataset


class TinyModule(LightningModule):
    """Args: seconds to sleep per step, step at which to raise, factor on the loss (large ones diverge)."""

    def __init__(self, sleep: float = 0.0, fail_at: int = -1, factor: float = 1.0) -> None:
        super().__init__()
        self.sleep, self.fail_at, self.factor = sleep, fail_at, factor
        self.layer = torch.nn.Linear(4, 1)
        self.calls = 0

    def error(self, batch: list[Tensor]) -> Tensor:
        return (self.layer(batch[0]) - batch[1]).square().mean()

    def training_step(self, batch: list[Tensor], batch_idx: int) -> Tensor:
        time.sleep(self.sleep)
        if self.trainer.global_step == self.fail_at:
            raise RuntimeError("no luck today")
        return self.error(batch) * self.factor

    def validation_step(self, batch: list[Tensor], batch_idx: int) -> None:
        self.log("val/loss", self.error(batch))

    def test_step(self, batch: list[Tensor], batch_idx: int) -> None:
        self.log("test/loss", self.error(batch))


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
