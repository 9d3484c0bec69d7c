"""The gradient noise of a running training: what is measured, and that the run does not notice."""

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from lightning.fabric.utilities.exceptions import MisconfigurationException
from lightning.pytorch import Callback, LightningDataModule, LightningModule, Trainer
from lightning.pytorch.loggers import CSVLogger
from torch import Tensor, nn
from torch.utils.data import ConcatDataset, DataLoader, Dataset, IterableDataset, Subset
from torchmetrics import MeanMetric

from lightning_async import LocalSGDStrategy, ParameterServerStrategy, SimulatedCluster
from lightning_async.callbacks import GradientNoiseMonitor
from lightning_async.cli.main import main
from lightning_async.data import Dirichlet, Shards
from lightning_async.methods import ClippedASGD, GradientCoding, LocalSGD, RennalaSGD
from lightning_async.simulation import FixedTimes
from tests.callbacks.training import Memory, Regression, strategy_of


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


class Direct(LightningModule):
    """Its gradient is the mean of the samples of the mini-batch, whatever its parameters."""

    def __init__(self, dimension: int = 1) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.zeros(dimension))

    def training_step(self, batch: list[Tensor], batch_idx: int) -> Tensor:
        return (batch[0].mean(0) * self.w).sum()

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.01)


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


def test_values_go_to_any_logger_under_the_step_and_beside_logical_time() -> None:
    memory, noise = Memory(), monitor(steps=[2], every_n_steps=3)
    trainer = run("clipped", noise, logger=memory)
    rows = [(step, row) for step, row in memory.rows if "gradient_noise/theta" in row]
    assert [step for step, _ in rows] == [0, 2, 3, 6, 9]
    for (_, row), measured in zip(rows, noise.measurements, strict=True):
        assert row["gradient_noise/theta"] == measured.tail.theta
        assert (row["gradient_noise/theta_low"], row["gradient_noise/theta_high"]) == measured.tail.interval
        assert row["gradient_noise/order_statistics"] == 10
        assert row["logical_time"] <= trainer.strategy.logical_time


def test_a_csv_logger_takes_values_that_come_late(tmp_path: Path) -> None:
    run("plain", monitor(steps=[4]), logger=CSVLogger(tmp_path), log_every_n_steps=1)
    (file,) = tmp_path.rglob("metrics.csv")
    header, *rows = file.read_text().splitlines()
    column = header.split(",").index("gradient_noise/theta")
    assert sum(row.split(",")[column] != "" for row in rows) == 1


def test_a_resumed_run_keeps_what_was_measured(tmp_path: Path) -> None:
    path, whole, first, second = tmp_path / "half.ckpt", monitor(), monitor(), monitor(steps=[0, 3, 8])
    run("clipped", whole)
    run("clipped", first, max_steps=5).save_checkpoint(path)
    torch.load(path)
    trainer = Trainer(
        strategy=STRATEGIES["clipped"](), max_steps=10, max_epochs=-1, accelerator="cpu", callbacks=[second],
        logger=False, enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
    )  # fmt: skip
    trainer.fit(Busy(), DataLoader(NoisyTargets(), batch_size=4, shuffle=True), ckpt_path=path)
    assert [measured.step for measured in second.measurements] == [0, 3, 8]
    for kept, measured in zip(second.measurements[:2], whole.measurements, strict=True):
        np.testing.assert_array_equal(kept.errors, measured.errors)
        assert kept.tail == measured.tail


def test_plots_of_every_run_go_to_a_folder_of_their_own(tmp_path: Path) -> None:
    (tmp_path / "noise" / "version_4").mkdir(parents=True)
    for _ in range(2):
        run("plain", monitor(folder=str(tmp_path / "noise")), max_steps=4)
    assert sorted(str(path.relative_to(tmp_path / "noise")) for path in tmp_path.rglob("*.png")) == [
        f"version_{version}/gradient_noise_0000000{step}.png" for version in (5, 6) for step in (0, 3)
    ]


def test_a_folder_that_is_a_file_is_refused_before_the_first_step(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    everything = Everything()
    with pytest.raises(MisconfigurationException, match=r"folder='.*file': .*Give the path of a folder"):
        run("plain", monitor(steps=[5], folder=str(tmp_path / "file")), everything)
    assert everything.seen == []


def test_the_fitted_law_is_drawn_over_the_sorted_errors() -> None:
    noise = monitor(steps=[0], num_samples=40)
    run("plain", noise)
    (axis,) = noise.measurements[0].figure().axes
    errors, _, fitted = axis.lines
    assert (len(errors.get_xdata()), len(fitted.get_xdata())) == (39, 10)
    slope = np.polyfit(np.log(fitted.get_xdata()), np.log(fitted.get_ydata()), 1)[0]
    assert slope == pytest.approx(noise.measurements[0].tail.theta)


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


def test_it_is_configured_by_yaml(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = Path(__file__).parents[2]
    monkeypatch.setattr("sys.argv", ["lightning-async"])
    monkeypatch.syspath_prepend(str(root))
    files = [
        root / f"configs/{name}.yaml" for name in ("recipes/a9a", "methods/clipped_asgd", "callbacks/gradient_noise")
    ]
    words = [word for file in files for word in ("--config", str(file))]
    changes = ["--trainer.max_steps=3", "--trainer.enable_progress_bar=false"]
    noise = "--trainer.callbacks.init_args."
    changes += [f"{noise}steps=[0,2]", f"{noise}num_samples=20", f"{noise}num_order_statistics=8"]
    assert main(["fit", *words, *changes]) == 0
    assert len(list(Path("outputs/gradient_noise/version_0").iterdir())) == 2
    (log,) = tmp_path.rglob("metrics.csv")
    assert "gradient_noise/theta" in log.read_text()


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


def test_regression_of_the_other_tests_is_measured_too() -> None:
    noise = monitor(steps=[0], num_samples=20)
    Trainer(
        max_steps=1, max_epochs=-1, accelerator="cpu", callbacks=[noise], logger=False, limit_val_batches=0,
        enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
    ).fit(Regression())  # fmt: skip
    assert noise.measurements[0].tail is not None
