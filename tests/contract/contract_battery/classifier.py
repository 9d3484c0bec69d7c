"""A module with everything that makes gradients at other parameters go wrong."""

from collections.abc import Callable

import torch
from lightning.pytorch import LightningModule
from torch import Tensor, nn
from torch.nn.functional import avg_pool2d, cross_entropy

from contract_battery.images import CLASSES

OPTIMIZERS: dict[str, Callable] = {
    "sgd": lambda parameters: torch.optim.SGD(parameters, lr=0.1),
    "momentum": lambda parameters: torch.optim.SGD(parameters, lr=0.1, momentum=0.9, weight_decay=0.01),
    "adamw": lambda parameters: torch.optim.AdamW(parameters, lr=0.02),
}


class Network(nn.Module):
    """Chained convolutions, BatchNorm, a weight that is used twice, a product of parameters, dropout."""

    def __init__(self, dropout: float, norm: bool = True) -> None:
        super().__init__()
        self.first = nn.Conv2d(1, 2, 3, padding=1, bias=False)
        self.second = nn.Conv2d(2, 2, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(2) if norm else nn.Identity()
        self.dropout = nn.Dropout(dropout)
        self.tied = nn.Parameter(torch.eye(8) + 0.1 * torch.randn(8, 8))
        self.scale = nn.Parameter(torch.ones(8))
        self.gate = nn.Parameter(torch.full((8,), 0.9))
        self.head = nn.Linear(8, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.tanh(self.norm(self.second(self.first(x))))
        x = self.dropout(avg_pool2d(x, 2).flatten(1))
        x = x @ self.tied @ self.tied.T
        return self.head(x * (self.gate * self.scale * self.gate))


class Classifier(LightningModule):
    """The network with an optimizer by name, and a scheduler that acts after every step if asked for."""

    def __init__(
        self, optimizer: str = "sgd", dropout: float = 0.0, schedule: bool = False, norm: bool = True, seed: int = 0
    ) -> None:
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            self.network = Network(dropout, norm)
        self.optimizer_name = optimizer
        self.schedule = schedule

    def loss(self, batch: list[Tensor]) -> Tensor:
        x, y = batch
        return cross_entropy(self.network(x), y)

    def training_step(self, batch: list[Tensor], batch_idx: int) -> Tensor:
        loss = self.loss(batch)
        self.log("train/loss", loss, on_step=True, on_epoch=False)
        return loss

    def validation_step(self, batch: list[Tensor], batch_idx: int) -> None:
        self.log("val/loss", self.loss(batch))

    def test_step(self, batch: list[Tensor], batch_idx: int) -> None:
        self.log("test/loss", self.loss(batch))

    def configure_optimizers(self):
        optimizer = OPTIMIZERS[self.optimizer_name](self.parameters())
        if not self.schedule:
            return optimizer
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.8)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": scheduler, "interval": "step"}}
