"""Batches on their way to the device: whoever has a say in it is asked, and nobody else is."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from lightning.pytorch import LightningDataModule, LightningModule, Trainer
from torch import Tensor
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, TensorDataset, default_collate

from lightning_async import LocalSGDStrategy, ParameterServerStrategy, SimulatedCluster
from lightning_async.methods import ASGD, LOSCAR, RennalaSGD
from lightning_async.simulation import UniformTimes

STRATEGIES: list[Callable[[], Any]] = [
    lambda: ParameterServerStrategy(ASGD(), SimulatedCluster(UniformTimes(2))),
    lambda: ParameterServerStrategy(RennalaSGD(batch=2), SimulatedCluster(UniformTimes(2))),
    lambda: LocalSGDStrategy(LOSCAR(sparsity=0.5, compute_window=2.0), SimulatedCluster(UniformTimes(2))),
]
JOBS = [4, 8, 4]

pytestmark = pytest.mark.parametrize(("strategy", "jobs"), list(zip(STRATEGIES, JOBS, strict=True)))


def fit(trainer: Trainer, module: LightningModule, **data: Any) -> None:
    trainer.fit(module, **data)
    assert trainer.global_step == 4


@pytest.fixture
def trainer(quiet: Callable[..., Trainer], strategy: Callable[[], Any]) -> Trainer:
    return quiet(strategy=strategy(), max_steps=4)


class Movable:
    """Something that is no tensor, and has to be moved."""

    def __init__(self, images: Tensor) -> None:
        self.images = images
        self.moves = 0

    def to(self, device: torch.device, **kwargs: Any) -> Movable:
        self.moves += 1
        return self


def test_the_hook_of_the_module_sees_every_batch(
    classifier: type[LightningModule], images: Callable[..., DataLoader], trainer: Trainer, jobs: int
) -> None:
    class Counting(classifier):  # type: ignore[misc, valid-type]
        def on_after_batch_transfer(self, batch: Any, dataloader_idx: int) -> Any:
            seen.append(batch)
            return [2.0 * batch[0], batch[1]]

        def training_step(self, batch: Any, batch_idx: int) -> Tensor:
            used.append(batch)
            return super().training_step(batch, batch_idx)

    seen: list[Any] = []
    used: list[Any] = []
    fit(trainer, Counting(), train_dataloaders=images())
    assert len(seen) == len(used) == jobs
    assert all(torch.equal(2.0 * a, b) for (a, _), (b, _) in zip(seen, used, strict=True))


def test_the_hook_of_the_data_module_sees_every_batch(
    classifier: type[LightningModule], images: Callable[..., DataLoader], trainer: Trainer, jobs: int
) -> None:
    class Data(LightningDataModule):
        def train_dataloader(self) -> DataLoader:
            return images()

        def transfer_batch_to_device(self, batch: Any, device: torch.device, dataloader_idx: int) -> Any:
            devices.append(device)
            return batch

    devices: list[torch.device] = []
    fit(trainer, classifier(), datamodule=Data())
    assert devices == [torch.device("cpu")] * jobs


def test_what_is_no_tensor_is_moved(
    classifier: type[LightningModule], images: Callable[..., DataLoader], trainer: Trainer, jobs: int
) -> None:
    class OfMovables(classifier):  # type: ignore[misc, valid-type]
        def loss(self, batch: Any) -> Tensor:
            movable, y = batch
            moves.append(movable.moves)
            return cross_entropy(self.network(movable.images), y)

    moves: list[int] = []

    def collate(samples: list[tuple[Tensor, Tensor]]) -> tuple[Movable, Tensor]:
        x, y = default_collate(samples)
        return Movable(x), y

    fit(trainer, OfMovables(), train_dataloaders=images(collate_fn=collate))
    assert moves == [1] * jobs


def test_tensors_that_are_where_they_belong_are_not_looked_at(
    classifier: type[LightningModule],
    images: Callable[..., DataLoader],
    trainer: Trainer,
    jobs: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    module = classifier()
    monkeypatch.setattr(type(module), "_apply_batch_transfer_handler", lambda *args, **kwargs: pytest.fail("looked"))
    fit(trainer, module, train_dataloaders=images())


def doubled(batch: Any, dataloader_idx: int) -> Any:
    return [2.0 * batch[0], batch[1]]


class AsObject:
    def __call__(self, batch: Any, dataloader_idx: int) -> Any:
        return doubled(batch, dataloader_idx)


@pytest.mark.parametrize("when", ["before", "during"])
@pytest.mark.parametrize("how", ["function", "wrapped", "object"])
def test_a_hook_on_the_object_is_asked(
    classifier: type[LightningModule],
    images: Callable[..., DataLoader],
    trainer: Trainer,
    jobs: int,
    how: str,
    when: str,
) -> None:
    class Watching(classifier):  # type: ignore[misc, valid-type]
        def on_train_epoch_start(self) -> None:
            if when == "during":
                self.on_after_batch_transfer = hook(self)

        def training_step(self, batch: Any, batch_idx: int) -> Tensor:
            largest.append(batch[0].abs().max().item())
            return super().training_step(batch, batch_idx)

    def hook(module: LightningModule) -> Callable[[Any, int], Any]:
        if how == "wrapped":
            return functools.wraps(module.on_after_batch_transfer)(doubled)
        return AsObject() if how == "object" else doubled

    largest: list[float] = []
    module = Watching()
    if when == "before":
        module.on_after_batch_transfer = hook(module)
    ones = TensorDataset(torch.ones(13, 1, 4, 4), torch.arange(13) % 3)
    fit(trainer, module, train_dataloaders=DataLoader(ones, batch_size=3))
    assert largest == [2.0] * jobs
