"""The gradient noise of a running training: what is measured."""

from typing import Any

import numpy as np
import pytest
import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, Subset

from lightning_async import ParameterServerStrategy, SimulatedCluster
from lightning_async.callbacks import GradientNoiseMonitor
from lightning_async.data import Dirichlet, Shards
from lightning_async.methods import GradientCoding
from lightning_async.simulation import FixedTimes
from tests.callbacks.noisy_training import STRATEGIES, Direct, NoisyTargets, monitor
from tests.callbacks.training import Regression


def test_both_passes_of_a_measurement_see_the_same_mini_batches() -> None:
    class Noise(Dataset[Tensor]):
        def __init__(self) -> None:
            self.transform = np.random.default_rng(0)

        def __len__(self) -> int:
            return 30

        def __getitem__(self, row: int) -> list[Tensor]:
            return [torch.tensor(self.transform.normal(size=2), dtype=torch.float32)]

    noise = monitor(steps=[0], num_samples=30)
    Trainer(
        max_steps=1, max_epochs=-1, accelerator="cpu", callbacks=[noise], logger=False, enable_checkpointing=False,
        enable_progress_bar=False, enable_model_summary=False,
    ).fit(Direct(2), DataLoader(Subset(Noise(), range(30)), batch_size=1))  # fmt: skip
    draws = np.random.default_rng(0).normal(size=(30, 2))
    np.testing.assert_allclose(noise.measurements[0].errors, np.linalg.norm(draws - draws.mean(0), axis=1), rtol=1e-4)


def train_on(samples: Tensor, noise: Callback, strategy: str = "plain", **kwargs: Any) -> Trainer:
    data = DataLoader(torch.utils.data.TensorDataset(samples), batch_size=1, shuffle=True)
    trainer = Trainer(
        strategy=STRATEGIES[strategy](),
        max_steps=4,
        max_epochs=-1,
        accelerator="cpu",
        callbacks=[noise],
        enable_progress_bar=False,
        enable_model_summary=False,
        **{"logger": False, "enable_checkpointing": False, **kwargs},
    )
    trainer.fit(Direct(samples.shape[1]), data)
    return trainer


def gradients_of_tail(theta: float, count: int = 3000) -> Tensor:
    rng = np.random.default_rng(int(10 * theta))
    directions = rng.standard_normal((count, 3))
    directions *= (rng.exponential(size=count) ** theta / np.linalg.norm(directions, axis=1))[:, None]
    return torch.tensor(directions, dtype=torch.float32)


@pytest.mark.parametrize("strategy", ["plain", "clipped"])
@pytest.mark.parametrize("theta", [0.5, 1.0, 2.0])
def test_known_tail_of_the_gradients_is_within_the_interval(theta: float, strategy: str) -> None:
    noise = GradientNoiseMonitor(steps=[2], num_samples=800, num_order_statistics=80, confidence=0.99)
    train_on(gradients_of_tail(theta), noise, strategy)
    (measured,) = noise.measurements
    assert measured.tail is not None
    assert measured.tail.num_order_statistics == 80
    assert measured.tail.interval[0] < theta < measured.tail.interval[1]


def test_errors_are_distances_to_the_mean_over_samples_that_are_drawn_once() -> None:
    samples = gradients_of_tail(1.0, count=60)
    noise = monitor(steps=[1], num_samples=60)
    train_on(samples, noise)
    (measured,) = noise.measurements
    expected = (samples - samples.mean(0)).norm(dim=1).numpy()
    np.testing.assert_allclose(np.sort(measured.errors), np.sort(expected), rtol=1e-4)
    assert measured.gradient_norm == pytest.approx(samples.mean(0).norm().item(), rel=1e-4)


def test_noise_is_that_at_the_parameters_of_the_step() -> None:
    class Scaled(Direct):
        def training_step(self, batch: list[Tensor], batch_idx: int) -> Tensor:
            return (batch[0].mean(0) * self.w**2).sum() / 2  # the gradient is the sample times w

    data = DataLoader(torch.utils.data.TensorDataset(gradients_of_tail(1.0, 60)), batch_size=1)
    module, noise, weights = Scaled(3), monitor(steps=[0, 1, 2], num_samples=30), []
    nn.init.ones_(module.w)

    class Weights(Callback):
        def on_train_batch_start(self, trainer: Trainer, pl_module: LightningModule, *args: Any) -> None:
            weights.append(module.w.detach().clone())

    Trainer(
        max_steps=3, max_epochs=-1, accelerator="cpu", callbacks=[noise, Weights()], logger=False,
        enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
    ).fit(module, data)  # fmt: skip
    draws = [samples / w for samples, w in zip([m.gradient_norm for m in noise.measurements], [1.0] * 3, strict=True)]
    assert len({round(draw, 6) for draw in draws}) == 3
    first, second = noise.measurements[0], noise.measurements[1]
    ratio = second.errors / first.errors
    low, high = weights[1].min().item(), weights[1].max().item()
    assert np.all((ratio >= low - 1e-4) & (ratio <= high + 1e-4))


class LabelledSamples(torch.utils.data.TensorDataset):
    """Samples whose labels are their first entries."""

    def __init__(self, samples: Tensor) -> None:
        super().__init__(samples)
        self.targets = samples[:, 0].long().tolist()


def test_errors_of_a_partitioned_run_include_how_workers_differ() -> None:
    class Labels(NoisyTargets):
        def __getitem__(self, row: int) -> tuple[Tensor, Tensor]:
            return torch.tensor([float(self.targets[row] == label) for label in range(3)]), torch.tensor(0)

    rms = {}
    for strategy in ("clipped", "partitioned"):
        noise = monitor(steps=[0], num_samples=200, batch_size=8)
        torch.manual_seed(0)
        built = STRATEGIES[strategy]()
        if strategy == "partitioned":
            built.partition = Dirichlet(alpha=0.1, min_size=8)
        Trainer(
            strategy=built, max_steps=1, max_epochs=-1, accelerator="cpu", callbacks=[noise], logger=False,
            enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
        ).fit(Direct(3), DataLoader(Labels(), batch_size=8, shuffle=True))  # fmt: skip
        rms[strategy] = noise.measurements[0].metrics["gradient_noise/rms"]
    assert rms["partitioned"] > 1.3 * rms["clipped"]


def test_samples_of_a_coded_run_are_split_over_its_partitions_and_not_over_workers() -> None:
    strategy = ParameterServerStrategy(
        GradientCoding("uncoded", 10, "none", "own", partitions=2),
        SimulatedCluster(FixedTimes([1.0] * 10)),
        partition=Shards(1),
    )
    samples, noise = torch.tensor([[0.0]] * 4 + [[1.0]] * 4), monitor(steps=[0], num_samples=20, batch_size=4)
    trainer = Trainer(
        strategy=strategy, max_steps=2, max_epochs=-1, accelerator="cpu", callbacks=[noise], logger=False,
        enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
    )  # fmt: skip
    trainer.fit(Direct(), DataLoader(LabelledSamples(samples), batch_size=2, shuffle=True))
    assert trainer.global_step == 2
    mean = noise.measurements[0].gradient_norm  # gradients are 0 in one partition, 1 in the other
    np.testing.assert_allclose(np.unique(noise.measurements[0].errors.round(6)), np.unique([mean, 1 - mean]).round(6))


def test_noise_without_a_tail_warns_and_training_goes_on() -> None:
    noise = monitor(steps=[0])
    with pytest.warns(UserWarning, match=r"no tail parameter at step 0: .*are positive"):
        trainer = train_on(torch.ones(40, 2), noise)
    assert trainer.global_step == 4
    assert noise.measurements[0].tail is None
    assert "gradient_noise/theta" not in noise.measurements[0].metrics


def test_gradients_that_are_not_finite_are_left_out_and_counted() -> None:
    samples = gradients_of_tail(1.0, count=40)
    samples[::8] = float("nan")
    noise = monitor(steps=[0], num_samples=40)
    train_on(samples, noise)
    assert (noise.measurements[0].nonfinite, len(noise.measurements[0].errors)) == (5, 35)


def test_regression_of_the_other_tests_is_measured_too() -> None:
    noise = monitor(steps=[0], num_samples=20)
    Trainer(
        max_steps=1, max_epochs=-1, accelerator="cpu", callbacks=[noise], logger=False, limit_val_batches=0,
        enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
    ).fit(Regression())  # fmt: skip
    assert noise.measurements[0].tail is not None
