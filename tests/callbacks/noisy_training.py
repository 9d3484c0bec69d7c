"""A training with every source of randomness, and one whose gradients are its samples."""

import random
from typing import Any

import numpy as np
import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset
from torchmetrics import MeanMetric

from lightning_async import LocalSGDStrategy, ParameterServerStrategy, SimulatedCluster
from lightning_async.callbacks import GradientNoiseMonitor
from lightning_async.data import Dirichlet
from lightning_async.methods import ClippedASGD, LocalSGD, RennalaSGD
from lightning_async.simulation import FixedTimes
from tests.callbacks.training import strategy_of


class NoisyTargets(Dataset[tuple[Tensor, Tensor]]):
    """Augments its samples with three global sources of randomness and one of its own."""

    def __init__(self) -> None:
        self.generator = torch.Generator().manual_seed(5)
        self.targets = [row % 3 for row in range(48)]

    def __len__(self) -> int:
        return 48

    def __getitem__(self, row: int) -> tuple[Tensor, Tensor]:
        image = torch.randn(2, 6, 6, generator=torch.Generator().manual_seed(row))
        image += 0.1 * torch.rand(()) + 0.1 * random.random() + 0.1 * float(np.random.rand())
        return image + 0.1 * torch.rand((), generator=self.generator), torch.tensor(self.targets[row])


class Busy(LightningModule):
    """Dropout, BatchNorm, a metric, logging, losses kept with their graph, and draws of its own in every step."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.network = nn.Sequential(
            nn.Conv2d(2, 3, 3), nn.BatchNorm2d(3), nn.ReLU(), nn.Dropout(0.3), nn.Flatten(), nn.Linear(48, 3)
        )
        self.mean_loss = MeanMetric()
        self.kept: list[Tensor] = []
        self.calls = 0

    def training_step(self, batch: Any, batch_idx: int) -> Tensor:
        images, labels = batch
        loss = nn.functional.cross_entropy(self.network(images), labels) * (1 + 0.1 * random.random())
        self.mean_loss(loss)
        self.calls += 1
        self.kept.append(loss)
        self.log("train/loss", loss, on_step=True, on_epoch=True)
        self.log("train/mean", self.mean_loss)
        return loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.1, momentum=0.9)


class Everything(Callback):
    """What a disturbed run would show, after every batch."""

    def __init__(self) -> None:
        self.seen: list[Any] = []

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        state = {name: value.clone() for name, value in pl_module.state_dict().items()}
        gradients = [None if p.grad is None else p.grad.clone() for p in pl_module.parameters()]
        logged = {name: float(value) for name, value in trainer.callback_metrics.items()}
        random_now = [torch.rand(()).item(), random.random(), np.random.rand()]
        modes = [module.training for module in pl_module.modules()]
        counts = [pl_module.calls, len(pl_module.kept)]
        self.seen.append([state, gradients, outputs["loss"].item(), logged, random_now, modes, counts])


def equal(one: Any, other: Any) -> bool:
    if isinstance(one, Tensor):
        return torch.equal(one, other)
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(equal(one[key], other[key]) for key in one)
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(equal, one, other))
    return bool(one == other)


STRATEGIES = {
    "plain": lambda: "auto",
    "clipped": lambda: strategy_of(ClippedASGD(clip=0.5)),
    "several jobs": lambda: strategy_of(RennalaSGD(batch=2)),
    "partitioned": lambda: ParameterServerStrategy(
        ClippedASGD(clip=0.5, dispatch="uniform"),
        SimulatedCluster(FixedTimes([1.0, 2.5, 3.3])),
        partition=Dirichlet(alpha=5.0, min_size=4),
    ),
    "replicas": lambda: LocalSGDStrategy(LocalSGD(compute_window=3.0), SimulatedCluster(FixedTimes([1.0, 2.5]))),
}


def run(strategy: str, *callbacks: Callback, module: LightningModule | None = None, **kwargs: Any) -> Trainer:
    torch.manual_seed(1)
    random.seed(1)
    np.random.seed(1)
    arguments: dict[str, Any] = {
        "strategy": STRATEGIES[strategy](),
        "max_epochs": -1,
        "max_steps": 10,
        "accelerator": "cpu",
        "logger": False,
        "enable_checkpointing": False,
        "enable_progress_bar": False,
        "enable_model_summary": False,
    }
    trainer = Trainer(callbacks=list(callbacks), **{**arguments, **kwargs})
    trainer.fit(Busy() if module is None else module, DataLoader(NoisyTargets(), batch_size=4, shuffle=True))
    return trainer


def monitor(**kwargs: Any) -> GradientNoiseMonitor:
    return GradientNoiseMonitor(**{"steps": [0, 3], "num_samples": 24, "num_bootstrap": 100, **kwargs})


class Direct(LightningModule):
    """Its gradient is the mean of the samples of the mini-batch, whatever its parameters."""

    def __init__(self, dimension: int = 1) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.zeros(dimension))

    def training_step(self, batch: list[Tensor], batch_idx: int) -> Tensor:
        return (batch[0].mean(0) * self.w).sum()

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.01)
