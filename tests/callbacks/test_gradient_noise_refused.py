"""What the monitor of gradient noise refuses, with the remedy."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from lightning.fabric.utilities.exceptions import MisconfigurationException
from lightning.pytorch import Trainer
from torch import Tensor
from torch.utils.data import DataLoader, IterableDataset

from lightning_async.callbacks import GradientNoiseMonitor
from tests.callbacks.noisy_training import Direct, Everything, monitor, run


def test_a_folder_that_is_a_file_is_refused_before_the_first_step(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    everything = Everything()
    with pytest.raises(MisconfigurationException, match=r"folder='.*file': .*Give the path of a folder"):
        run("plain", monitor(steps=[5], folder=str(tmp_path / "file")), everything)
    assert everything.seen == []


class Manual(Direct):
    def __init__(self) -> None:
        super().__init__(2)
        self.automatic_optimization = False


class Locked(Direct):
    def __init__(self) -> None:
        super().__init__(2)
        self.file = open(__file__)  # noqa: SIM115


class Endless(IterableDataset[tuple[Tensor]]):
    def __iter__(self) -> Any:
        return iter(torch.ones(50, 1, 2))


@pytest.mark.parametrize(
    ("module", "data", "message"),
    [
        (Manual, torch.utils.data.TensorDataset(torch.ones(9, 2)), "optimizes manually. Use automatic optimization"),
        (Locked, torch.utils.data.TensorDataset(torch.ones(9, 2)), "copy of Locked, which cannot be copied"),
        (lambda: Direct(2), Endless(), "map-style dataset; the training data are DataLoader over Endless"),
    ],
)
def test_what_cannot_be_measured_is_refused_with_the_remedy(module: Any, data: Any, message: str) -> None:
    trainer = Trainer(
        max_steps=2, max_epochs=-1, accelerator="cpu", callbacks=[monitor(steps=[2])], logger=False,
        enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
    )  # fmt: skip
    built = module()
    with pytest.raises(MisconfigurationException, match=message):
        trainer.fit(built, DataLoader(data, batch_size=1))
    assert trainer.global_step == 0
    if isinstance(built, Locked):
        built.file.close()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"steps": [-1]}, r"steps\[0\] must be at least 0, got -1"),
        ({"steps": []}, "steps is empty and every_n_steps is None"),
        ({"every_n_steps": 0}, "every_n_steps must be at least 1, got 0"),
        ({"num_samples": 5}, "num_samples must be at least 20, got 5"),
        (
            {"num_samples": 50, "num_order_statistics": 50},
            "num_order_statistics must be from 5 to 49, below num_samples=50, got 50",
        ),
        ({"confidence": 1.0}, r"confidence must be a number in \(0, 1\), got 1.0"),
        ({"batch_size": 0}, "batch_size must be at least 1"),
        ({"seed": -1}, "seed must be an integer from 0 .*, got -1"),
    ],
)
def test_arguments_out_of_range_are_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        GradientNoiseMonitor(**arguments)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"steps": [1.5]}, r"steps\[0\] must be an integer of at least 0, got 1.5"),
        ({"steps": 500}, r"steps must be a list of numbers of updates, such as \[0, 500\], got 500"),
        ({"steps": None}, "steps must be a list .* got None"),
        ({"steps": "500"}, "steps must be a list .* got '500'"),
        ({"every_n_steps": 2.5}, "every_n_steps must be an integer of at least 1, got 2.5"),
        ({"num_samples": 20.5}, "num_samples must be an integer of at least 20, got 20.5"),
        ({"num_samples": None}, "num_samples must be an integer of at least 20, got None"),
        ({"num_order_statistics": 7.5}, "num_order_statistics must be an integer from 5 to 199, .* got 7.5"),
        ({"num_bootstrap": 1e3}, "num_bootstrap must be an integer of at least 100, got 1000.0"),
        ({"num_bootstrap": None}, "num_bootstrap must be an integer of at least 100, got None"),
        ({"confidence": None}, r"confidence must be a number in \(0, 1\), got None"),
        ({"batch_size": 2.5}, "batch_size must be an integer of at least 1, got 2.5"),
        ({"seed": None}, "seed must be an integer from 0 .*, got None"),
        ({"seed": 1.5}, "seed must be an integer from 0 .*, got 1.5"),
        ({"folder": 3}, "folder must be the path of a folder, or None for no plots; got 3"),
    ],
)
def test_arguments_of_the_wrong_kind_are_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(TypeError, match=message):
        GradientNoiseMonitor(**arguments)


def test_integers_of_numpy_are_integers() -> None:
    noise = GradientNoiseMonitor(steps=np.array([0, 3]), num_samples=np.int64(24), seed=np.int32(1))  # type: ignore
    assert (noise.steps, noise.num_samples, noise.seed) == ((0, 3), 24, 1)
