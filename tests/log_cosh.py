"""A sum of log cosh to minimise, with noisy gradients."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from lightning_async.simulation import Job

OPTIMIZERS = {
    "sgd": lambda ps: torch.optim.SGD(ps, lr=0.1),
    "momentum": lambda ps: torch.optim.SGD(ps, lr=0.02, momentum=0.9, nesterov=True, weight_decay=1e-3),
    "adam": lambda ps: torch.optim.Adam(ps, lr=0.01),
}
EVERY_OPTIMIZER = pytest.mark.parametrize("optimizer", OPTIMIZERS)


def start() -> list[Tensor]:
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(7, generator=generator), torch.randn(3, 2, generator=generator)]


def gradient(ps: list[Tensor], job: Job) -> list[Tensor]:
    """Of sum log cosh, with noise that belongs to the job."""
    generator = torch.Generator().manual_seed(1000 * job.worker + job.number)
    return [torch.tanh(p) + 0.1 * torch.randn(p.shape, generator=generator) for p in ps]
