"""A run does not notice that its gradient noise is measured."""

import random
from typing import Any

import numpy as np
import pytest
import torch
from lightning.pytorch import LightningDataModule, Trainer
from torch import Tensor
from torch.utils.data import ConcatDataset, DataLoader, Subset

from tests.callbacks.noisy_training import STRATEGIES, Busy, Everything, NoisyTargets, equal, monitor, run


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_run_is_the_same_bit_for_bit_with_and_without(strategy: str) -> None:
    alone, watched, noise = Everything(), Everything(), monitor()
    run(strategy, alone)
    run(strategy, noise, watched)
    assert [measured.step for measured in noise.measurements] == [0, 3]
    assert len(alone.seen) == 10
    assert equal(alone.seen, watched.seen)


class Augment:
    """A transform with a generator that its class holds, beside generators of its own."""

    shared = np.random.RandomState(4)

    def __init__(self) -> None:
        self.rng = np.random.default_rng(3)
        self.more = {"python": [random.Random(2)]}

    def __call__(self, image: Tensor) -> Tensor:
        return image + self.rng.normal() + self.more["python"][0].gauss(0, 1) + self.shared.randn()


class Transformed(NoisyTargets):
    def __init__(self) -> None:
        super().__init__()
        self.transforms = [Augment()]

    def __getitem__(self, row: int) -> tuple[Tensor, Tensor]:
        image, label = super().__getitem__(row)
        for transform in self.transforms:
            image = transform(image).float()
        return image, label


class Collate:
    def __init__(self) -> None:
        self.augment = Augment()

    def __call__(self, samples: list[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
        return torch.stack([self.augment(image).float() for image, _ in samples]), torch.stack([y for _, y in samples])


class Augmenting(Busy):
    """Draws from a generator that a function encloses, which is not copied with the module."""

    def __init__(self) -> None:
        super().__init__()
        rng = np.random.default_rng(6)
        self.noise = lambda: 0.1 * rng.normal()

    def training_step(self, batch: Any, batch_idx: int) -> Tensor:
        return super().training_step([batch[0] + self.noise(), batch[1]], batch_idx)


class AugmentingData(LightningDataModule):
    def __init__(self) -> None:
        super().__init__()
        self.augment = Augment()

    def train_dataloader(self) -> Any:
        return DataLoader(NoisyTargets(), batch_size=4)

    def on_after_batch_transfer(self, batch: Any, dataloader_idx: int) -> Any:
        return [self.augment(batch[0]).float(), batch[1]]


NESTED = {
    "transform": lambda: (Busy(), DataLoader(Transformed(), batch_size=4)),
    "subset": lambda: (Busy(), DataLoader(Subset(Transformed(), range(40)), batch_size=4)),
    "concatenation": lambda: (Busy(), DataLoader(ConcatDataset([NoisyTargets(), Transformed()]), batch_size=4)),
    "collate_fn": lambda: (Busy(), DataLoader(NoisyTargets(), batch_size=4, collate_fn=Collate())),
    "module": lambda: (Augmenting(), DataLoader(NoisyTargets(), batch_size=4)),
    "data module": lambda: (Busy(), AugmentingData()),
}


@pytest.mark.parametrize("where", NESTED)
def test_generators_wherever_they_are_do_not_advance(where: str) -> None:
    seen = []
    for callbacks in ([], [monitor(steps=[0, 2, 5])]):
        Augment.shared.seed(4)
        random.seed(1)
        np.random.seed(1)
        module, data = NESTED[where]()
        everything = Everything()
        Trainer(
            strategy=STRATEGIES["clipped"](), max_steps=7, max_epochs=-1, accelerator="cpu",
            callbacks=[*callbacks, everything], logger=False, enable_checkpointing=False, enable_progress_bar=False,
            enable_model_summary=False,
        ).fit(module, data)  # fmt: skip
        seen.append(everything.seen)
    assert equal(*seen)


def test_a_compiled_module_is_measured_at_its_own_parameters_and_not_disturbed() -> None:
    results = []
    for compiled in (False, True):
        module, noise = Busy(), monitor()
        run("clipped", noise, module=torch.compile(module, backend="eager") if compiled else module)
        results.append([[m.errors for m in noise.measurements], list(module.state_dict().values())])
    (errors, state), (compiled_errors, compiled_state) = results
    np.testing.assert_allclose(errors, compiled_errors, rtol=1e-4)
    for one, other in zip(state, compiled_state, strict=True):
        torch.testing.assert_close(one, other)
