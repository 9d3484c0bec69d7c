"""Loaders of every kind, and steps made of what they read."""

import random
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, count
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    Dataset,
    RandomSampler,
    WeightedRandomSampler,
)

from lightning_async.data.step_loader import StepLoader
from lightning_async.simulation import Job, Step

SIZE = 22


class Noisy(Dataset[Any]):
    """Samples know their index, and carry noise from the three libraries."""

    def __len__(self) -> int:
        return SIZE

    def __getitem__(self, index: int) -> Any:
        return torch.tensor([index, torch.rand(()).item(), np.random.randn(), random.random()], dtype=torch.float64)


class LazyNumpySampler:
    def __iter__(self) -> Iterator[int]:
        for _ in range(SIZE):
            yield int(np.random.randint(SIZE))

    def __len__(self) -> int:
        return SIZE


class Infinite:
    def __iter__(self) -> Iterator[int]:
        while True:
            yield int(torch.randint(SIZE, ()))


LOADERS: dict[str, Callable[..., DataLoader[Any]]] = {
    "shuffled": lambda **kw: DataLoader(Noisy(), batch_size=4, shuffle=True, **kw),
    "in order": lambda **kw: DataLoader(Noisy(), batch_size=4, **kw),
    "drop_last": lambda **kw: DataLoader(Noisy(), batch_size=4, shuffle=True, drop_last=True, **kw),
    "weighted": lambda **kw: DataLoader(Noisy(), batch_size=4, sampler=WeightedRandomSampler([1.0] * SIZE, SIZE), **kw),
    "lazy numpy": lambda **kw: DataLoader(Noisy(), batch_size=4, sampler=LazyNumpySampler(), **kw),
    "own generator": lambda **kw: DataLoader(
        Noisy(), batch_size=4, shuffle=True, generator=torch.Generator().manual_seed(3), **kw
    ),
    "batch_sampler": lambda **kw: DataLoader(
        Noisy(), batch_sampler=BatchSampler(RandomSampler(range(SIZE)), 4, drop_last=False), **kw
    ),
    "no batches": lambda **kw: DataLoader(Noisy(), batch_size=None, shuffle=True, **kw),
    "infinite": lambda **kw: DataLoader(Noisy(), batch_size=4, sampler=Infinite(), **kw),
    "one mini-batch": lambda **kw: DataLoader(Noisy(), batch_size=SIZE + 1, shuffle=True, **kw),
}
VARYING = [1, 0, 2, 5, 0, 0, 1, 3]
JOBS: dict[str, int | None] = {"one job": 1, "three jobs": 3, "eight jobs": 8, "varying jobs": None}


def varying_schedule() -> Iterator[Step]:
    for index in count():
        jobs = tuple(Job(worker, index, index) for worker in range(VARYING[index % len(VARYING)]))
        yield Step(index, float(index), jobs)


def step_loader(loader: Any, jobs_per_step: int | None = 1, **kwargs: Any) -> StepLoader:
    arguments = {"seed": 5, "schedule": varying_schedule, "num_workers": 4, **kwargs}
    return StepLoader(loader, jobs_per_step=jobs_per_step, **arguments)


def play(loader: StepLoader, steps: int, leave_after: Iterable[int] = ()) -> list[Any]:
    """Make steps as a Trainer does: epoch by epoch, each step committed when it has been made."""
    items: list[Any] = []
    leave = set(leave_after)
    while len(items) < steps:
        for item in loader:
            items.append(item)
            loader.commit()
            if len(items) == steps or len(items) in leave:
                break
    return items


def as_lists(items: Any) -> Any:
    return items.tolist() if isinstance(items, torch.Tensor) else [as_lists(item) for item in items]


def indices(items: Any) -> list[int]:
    """Indices of all samples, in order."""
    if isinstance(items, torch.Tensor):
        return [int(row[0]) for row in items.reshape(-1, 4)]
    return list(chain.from_iterable(indices(item) for item in items))


EVERY_LOADER = pytest.mark.parametrize("name", LOADERS)
EVERY_COUNT = pytest.mark.parametrize("jobs", JOBS)
FIXED_AND_VARYING = pytest.mark.parametrize("jobs", ["three jobs", "varying jobs"])
