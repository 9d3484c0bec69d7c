"""Thirteen tiny images: seven mini-batches of two, the last of one."""

import random

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

SIZE = 13
CLASSES = 3


class Images(Dataset[tuple[Tensor, Tensor]]):
    """Fixed random images. With `augment`, every look at one adds noise from torch, numpy and `random`."""

    def __init__(self, augment: bool = False, size: int = SIZE) -> None:
        generator = torch.Generator().manual_seed(3)
        self.x = torch.randn(size, 1, 4, 4, generator=generator)
        self.targets = torch.arange(size) % CLASSES
        self.augment = augment

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        x = self.x[index]
        if self.augment:
            x = x + 0.1 * torch.randn(4, 4) + 0.1 * float(np.random.normal()) + 0.1 * random.gauss(0.0, 1.0)
        return x, self.targets[index]


def loader(shuffle: bool = False, augment: bool = False, size: int = SIZE, **arguments) -> DataLoader:
    return DataLoader(Images(augment, size), **{"batch_size": 2, "shuffle": shuffle, **arguments})


def validation_loader() -> DataLoader:
    return DataLoader(Images(size=6), batch_size=3)
