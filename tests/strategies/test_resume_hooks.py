"""Hooks and callbacks may draw from the global generators: a resumed run goes on with their draws as well.

Batches that are moved draw under a seed of their own, whatever happens in between; who draws elsewhere goes on with the
states of the checkpoint.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from lightning.pytorch import Callback, LightningDataModule, LightningModule, Trainer, seed_everything
from lightning.pytorch.callbacks import ModelCheckpoint
from torch import Tensor
from torch.utils.data import DataLoader

from lightning_async import LocalSGDStrategy, ParameterServerStrategy, SimulatedCluster
from lightning_async.methods import LOSCAR, ClippedASGD, RennalaSGD
from lightning_async.simulation import FixedTimes
from lightning_async.strategies.scheduled import ScheduledStrategy

TIMES = [1.0, 1.5, 2.3]
STRATEGIES: dict[str, Callable[[], ScheduledStrategy]] = {
    "one job": lambda: ParameterServerStrategy(ClippedASGD(clip=1.0), SimulatedCluster(FixedTimes(TIMES))),
    "several": lambda: ParameterServerStrategy(RennalaSGD(batch=2), SimulatedCluster(FixedTimes(TIMES))),
    "replicas": lambda: LocalSGDStrategy(LOSCAR(0.5, compute_window=4.0), SimulatedCluster(FixedTimes(TIMES))),
}


class Augmenting(LightningDataModule):
    def __init__(self, loader: DataLoader) -> None:
        super().__init__()
        self.loader = loader

    def train_dataloader(self) -> DataLoader:
        return self.loader

    def val_dataloader(self) -> DataLoader:
        return self.loader

    def on_after_batch_transfer(self, batch: Any, dataloader_idx: int) -> Any:
        return [batch[0] + torch.randn_like(batch[0]) + float(np.random.rand()) + random.random(), batch[1]]


class AugmentingBefore(Augmenting):
    def val_dataloader(self) -> Any:
        return []

    def on_before_batch_transfer(self, batch: Any, dataloader_idx: int) -> Any:
        def noisy(x: Tensor) -> Tensor:
            return x + torch.randn_like(x) + float(np.random.rand()) + random.random()

        return [[noisy(x), y] for x, y in batch] if isinstance(batch[0], list) else [noisy(batch[0]), batch[1]]


class Shaking(Callback):
    def on_train_batch_end(self, trainer: Trainer, pl_module: LightningModule, *args: Any) -> None:
        with torch.no_grad():
            next(pl_module.parameters()).add_(torch.randn(()), alpha=1e-3)


@pytest.mark.parametrize("data", [Augmenting, AugmentingBefore])
@pytest.mark.parametrize("name", STRATEGIES)
def test_draws_of_hooks_go_on_where_they_were(
    name: str,
    data: type[Augmenting],
    classifier: Callable[..., LightningModule],
    images: Any,
    quiet: Callable[..., Trainer],
    tmp_path: Path,
) -> None:
    def fit(seed: int, folder: str, checkpoint: Path | None = None) -> list[Tensor]:
        seed_everything(seed)
        saving = ModelCheckpoint(tmp_path / folder, "{step}", every_n_train_steps=1, save_top_k=-1)
        # Validation draws; and what would be shaken of replicas is one of them.
        shaking = [] if data is Augmenting or name == "replicas" else [Shaking()]
        trainer = quiet(
            strategy=STRATEGIES[name](),
            max_steps=9,
            callbacks=[saving, *shaking],
            enable_checkpointing=True,
            check_val_every_n_epoch=None,
            val_check_interval=2,
        )
        module = classifier()
        trainer.fit(module, datamodule=data(images(shuffle=True)), ckpt_path=checkpoint)
        return [p.detach().clone() for p in module.parameters()]

    whole = fit(1, "whole")
    for step in (1, 4, 6):
        resumed = fit(2, f"from {step}", tmp_path / "whole" / f"step={step}.ckpt")
        assert all(map(torch.equal, whole, resumed))
