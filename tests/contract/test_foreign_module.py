"""Modules that nobody here wrote are trained by changing one argument."""

from collections.abc import Callable
from functools import partial

import pytest
import torch
from contract_battery.running import quiet
from contract_battery.table import COVERED
from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.demos import LightningTransformer
from lightning.pytorch.demos.boring_classes import BoringDataModule, BoringModel, DemoModel
from lightning.pytorch.strategies import Strategy
from torch.optim import AdamW
from torch.utils.data import DataLoader, Dataset, TensorDataset

from lightning_async import ParameterServerStrategy
from lightning_async.methods import ClippedASGD
from lightning_async.strategies.registry import REGISTERED, default_cluster


class Text(TensorDataset):
    """Sequences of token numbers, as `LightningTransformer` reads them."""

    def __init__(self) -> None:
        tokens = torch.randint(0, 30, (8, 12), generator=torch.Generator().manual_seed(0))
        super().__init__(tokens[:, :-1], tokens[:, 1:])


def transformer() -> tuple[LightningModule, DataLoader]:
    torch.manual_seed(0)
    return LightningTransformer(vocab_size=30), DataLoader(Text(), batch_size=1)


def boring() -> tuple[LightningModule, BoringDataModule]:
    return BoringModel(), BoringDataModule()


class Samples(Dataset):
    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.full((32,), index / 8.0)


def demo() -> tuple[LightningModule, DataLoader]:
    return DemoModel(), DataLoader(Samples(), batch_size=2)


def fitted(strategy: str | Strategy, make: Callable, steps: int = 3) -> Trainer:
    module, data = make()
    before = [p.detach().clone() for p in module.parameters()]
    trainer = quiet(strategy=strategy, max_steps=steps)
    if isinstance(data, BoringDataModule):
        trainer.fit(module, datamodule=data)
        trainer.validate(module, datamodule=data, verbose=False)
        trainer.test(module, datamodule=data, verbose=False)
    else:
        trainer.fit(module, data)
    assert trainer.global_step == steps
    assert any(not torch.equal(p, q) for p, q in zip(module.parameters(), before, strict=True))
    assert all(torch.isfinite(p).all() for p in module.parameters())
    return trainer


@pytest.fixture(autouse=True)
def _nothing_is_downloaded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LightningTransformer, "prepare_data", lambda self: None)


@pytest.mark.parametrize("make", [boring, transformer, demo], ids=["boring", "transformer", "demo"])
def test_clipped_asgd_trains_it_and_nothing_else_is_changed(make: Callable) -> None:
    fitted("clipped_asgd", make)


@pytest.mark.parametrize("name", sorted(REGISTERED.keys() - COVERED.keys()))
def test_every_registered_name_trains_it(name: str) -> None:
    fitted(name, transformer)


def test_its_optimizer_is_replaced_from_outside() -> None:
    strategy = ParameterServerStrategy(ClippedASGD(clip=1.0), default_cluster(), optimizer=partial(AdamW, lr=1e-3))
    assert type(fitted(strategy, transformer).optimizers[0]) is AdamW
