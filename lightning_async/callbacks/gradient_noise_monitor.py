"""How heavy the tail of the gradient noise is, during training."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch
from lightning.fabric.utilities.exceptions import MisconfigurationException
from lightning.pytorch import Callback, LightningModule, Trainer
from lightning_utilities.core.rank_zero import rank_zero_warn
from torch.utils.data import DataLoader, IterableDataset, RandomSampler, SequentialSampler
from typing_extensions import override

from lightning_async.callbacks.gradient_errors import MiniBatches, draw_indices, gradient_errors
from lightning_async.data.step_loader import StepLoader
from lightning_async.strategies.scheduled import ScheduledStrategy
from lightning_async.tail_index import SubWeibullTail, estimate_tail

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class GradientNoise:
    """The gradient noise at one moment.

    Attributes:
        step: server updates made: the noise is that at x_step.
        errors: norms of the gradient errors of the mini-batches.
        gradient_norm: norm of the mean gradient, which the errors are distances to.
        nonfinite: mini-batches that were left out, as their gradient was missing, NaN or infinite.
        tail: the fitted law; None if the errors allow none.
    """

    step: int
    errors: npt.NDArray[np.float64]
    gradient_norm: float
    nonfinite: int
    tail: SubWeibullTail | None

    @property
    def metrics(self) -> dict[str, float]:
        """What is logged."""
        values = {"gradient_norm": self.gradient_norm, "nonfinite": float(self.nonfinite)}
        if len(self.errors):
            values["rms"] = float(np.sqrt(np.mean(self.errors**2)))
        if self.tail is not None:
            low, high = self.tail.interval
            values |= {"theta": self.tail.theta, "theta_low": low, "theta_high": high, "scale": self.tail.scale}
            values["order_statistics"] = float(self.tail.num_order_statistics)
        return {f"gradient_noise/{name}": value for name, value in values.items()}

    def figure(self) -> Figure:
        """Sorted errors against log(m / i), on logarithmic axes, where a sub-Weibull tail is a line of slope theta."""
        from matplotlib.figure import Figure

        figure = Figure(figsize=(4.6, 3.4), layout="constrained")
        axis = figure.subplots()
        count = len(self.errors)
        # The smallest error has log(m / m) = 0, which a logarithmic axis does not have.
        exponent = np.log(count / np.arange(1, count))
        axis.plot(exponent, np.sort(self.errors)[::-1][: count - 1], ".", color="#0072B2", markersize=4, label="errors")
        title = f"step {self.step:,}"
        if self.tail is not None:
            k, (low, high) = self.tail.num_order_statistics, self.tail.interval
            law = self.tail.fitted_errors()[: count - 1]
            axis.plot(exponent, law, "--", color="#D55E00", linewidth=1.0, label="fitted law")
            axis.plot(exponent[:k], law[:k], color="#D55E00", linewidth=2.0, label=f"fitted to the {k} largest")
            title += f": theta = {self.tail.theta:.2f} [{low:.2f}, {high:.2f}]"
        axis.set(xscale="log", yscale="log", xlabel="log(m / i)", ylabel="i-th largest of m errors", title=title)
        if len(positive := self.errors[self.errors > 0]):
            axis.set_ylim(positive.min() / 1.2, positive.max() * 1.2)  # the law is about the tail, far below the rest
        axis.grid(alpha=0.25, linewidth=0.5)
        axis.legend(frameon=False, fontsize=8)
        return figure


class GradientNoiseMonitor(Callback):
    """Estimates the tail of the gradient noise at chosen moments, without disturbing the run.

    At each moment the gradients of `num_samples` mini-batches are computed at the current parameters; an error is the
    distance of one of them to their mean. The sub-Weibull tail parameter theta of the errors is the log-log slope of
    their largest order statistics, with a bootstrap interval (see `lightning_async.tail_index.estimate_tail`): 0.5
    Gaussian, 1 exponential, larger is heavier. The noise of clipped ASGD is analysed in these terms (Erickson and
    Johansson 2026, arXiv 2606.13287).

    Training goes on bit for bit as without the callback: gradients are taken on a copy of the module, mini-batches are
    drawn past the loader, uniformly without replacement (where workers own their data: each from one worker, workers
    uniformly, so that errors include how workers differ), and all random states are put back, those of generators that
    the dataset, its transforms, the collate function or the data module hold included. Only what `training_step` and
    the data do outside of the module, its logging and the dataset's attributes, such as writing files, happens in a
    measurement as well. A measurement
    costs 2 `num_samples` gradients and, while it lasts, the memory of a second module and two gradients.

    Works with strategies of this package and with a plain Trainer on one device. Logged, with any logger, are
    `gradient_noise/theta`, `theta_low`, `theta_high`, `scale` and `order_statistics` of the fit, `rms` of the errors,
    `gradient_norm`, `nonfinite`, and `logical_time` where there is one. `measurements` keeps the errors.

    Args:
        steps: numbers of updates after which to measure; 0 is before training.
        every_n_steps: measure after every so many updates as well, beginning at 0.
        num_samples: mini-batches per measurement, at least 20.
        num_order_statistics: how many of the largest errors the fit uses; by default a tenth, at least ten.
        confidence: level of the interval, in (0, 1).
        num_bootstrap: simulated estimates behind the interval, at least 100.
        batch_size: samples per mini-batch; by default the training loader's.
        seed: seed of the mini-batches, the same ones at every moment, and of the interval.
        folder: where to write a plot of every measurement; none are written if None.

    Raises:
        ValueError: if an argument is out of range, or nothing would ever be measured.

    Example:
        >>> from lightning.pytorch import Trainer
        >>> monitor = GradientNoiseMonitor(steps=[0, 500], num_samples=400, num_order_statistics=60)
        >>> trainer = Trainer(callbacks=[monitor], max_steps=1_000, max_epochs=-1, accelerator="cpu", logger=False)
    """

    def __init__(
        self,
        steps: Sequence[int] = (0,),
        every_n_steps: int | None = None,
        num_samples: int = 200,
        num_order_statistics: int | None = None,
        confidence: float = 0.95,
        num_bootstrap: int = 2000,
        batch_size: int | None = None,
        seed: int = 0,
        folder: str | None = None,
    ) -> None:
        if any(step < 0 for step in steps):
            raise ValueError(f"steps must be numbers of updates >= 0, got {list(steps)}")
        if not steps and every_n_steps is None:
            raise ValueError("steps is empty and every_n_steps is None: give one of them, or nothing is ever measured")
        for name, value, least in (
            ("every_n_steps", every_n_steps, 1),
            ("num_samples", num_samples, 20),
            ("num_bootstrap", num_bootstrap, 100),
            ("batch_size", batch_size, 1),
            ("seed", seed, 0),
        ):
            if value is not None and value < least:
                raise ValueError(f"{name} must be at least {least}, got {value}")
        if num_order_statistics is not None and not 5 <= num_order_statistics < num_samples:
            raise ValueError(
                f"num_order_statistics must be in [5, {num_samples - 1}], below num_samples={num_samples}; got "
                f"{num_order_statistics}"
            )
        if not 0 < confidence < 1:
            raise ValueError(f"confidence must be in (0, 1), got {confidence}")
        self.steps = tuple(steps)
        self.every_n_steps = every_n_steps
        self.num_samples = num_samples
        self.num_order_statistics = num_order_statistics
        self.confidence = confidence
        self.num_bootstrap = num_bootstrap
        self.batch_size = batch_size
        self.seed = seed
        self.folder = folder
        self.measurements: list[GradientNoise] = []
        """One per moment, in order."""

    @override
    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        if stage != "fit":
            return
        if not pl_module.automatic_optimization:
            raise MisconfigurationException(
                f"GradientNoiseMonitor takes gradients of what training_step returns, but {type(pl_module).__name__} "
                f"optimizes manually. Use automatic optimization, or remove the callback."
            )
        if trainer.world_size > 1:
            raise MisconfigurationException(
                f"GradientNoiseMonitor measures on one device, but the Trainer has {trainer.world_size} processes. Use "
                f"Trainer(devices=1)."
            )

    @override
    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if trainer.global_step == 0:
            self.measurements = []
        self._loader(trainer)  # refuse data that cannot be measured before the first step, not at a later one
        self._measure_if_due(trainer, pl_module)

    @override
    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        self._measure_if_due(trainer, pl_module)

    def _measure_if_due(self, trainer: Trainer, pl_module: LightningModule) -> None:
        step = trainer.global_step
        due = step in self.steps or (self.every_n_steps is not None and step % self.every_n_steps == 0)
        if not due or any(noise.step == step for noise in self.measurements):
            return
        noise = self._measured(trainer, pl_module)
        self.measurements.append(noise)
        strategy = trainer.strategy
        clock = {"logical_time": strategy.logical_time} if isinstance(strategy, ScheduledStrategy) else {}
        for logger in trainer.loggers:
            logger.log_metrics({**noise.metrics, **clock}, step=step)
        if self.folder is not None:
            folder = Path(self.folder)
            folder.mkdir(parents=True, exist_ok=True)
            noise.figure().savefig(folder / f"gradient_noise_{step:08d}.png", dpi=120)

    def _measured(self, trainer: Trainer, pl_module: LightningModule) -> GradientNoise:
        loader, batch_size = self._loader(trainer)
        indices = draw_indices(_shards(trainer, loader), batch_size, self.num_samples, self.seed)
        errors = gradient_errors(trainer, pl_module, MiniBatches(loader, indices, self.seed), self.seed)
        step = trainer.global_step
        tail = self._fitted(errors.norms, f"at step {step}")
        return GradientNoise(step, errors.norms, errors.gradient_norm, errors.nonfinite, tail)

    def _fitted(self, norms: npt.NDArray[np.float64], when: str) -> SubWeibullTail | None:
        try:
            return estimate_tail(
                norms,
                self.num_order_statistics,
                confidence=self.confidence,
                num_bootstrap=self.num_bootstrap,
                seed=self.seed,
            )
        except ValueError as error:  # training goes on: a tail is not worth a run
            rank_zero_warn(f"GradientNoiseMonitor has no tail parameter {when}: {error}")
            return None

    def _loader(self, trainer: Trainer) -> tuple[DataLoader[Any], int]:
        """The user's training loader, and the size of a mini-batch."""
        loader = trainer.train_dataloader
        loader = loader.loader if isinstance(loader, StepLoader) else loader
        if not isinstance(loader, DataLoader) or isinstance(loader.dataset, IterableDataset):
            raise MisconfigurationException(
                f"GradientNoiseMonitor draws mini-batches of its own, which takes one DataLoader over a map-style "
                f"dataset; the training data are {type(loader).__name__}"
                + (f" over {type(loader.dataset).__name__}." if isinstance(loader, DataLoader) else ".")
            )
        size = self.batch_size or loader.batch_size or getattr(loader.batch_sampler, "batch_size", None)
        if not isinstance(size, int):
            raise MisconfigurationException(
                "GradientNoiseMonitor does not know the size of a mini-batch, as the training loader has a batch "
                "sampler without batch_size: give the callback batch_size=."
            )
        return loader, size

    @override
    def state_dict(self) -> dict[str, Any]:
        return {
            "measurements": [
                {
                    "step": noise.step,
                    "errors": torch.from_numpy(noise.errors.copy()),
                    "gradient_norm": noise.gradient_norm,
                    "nonfinite": noise.nonfinite,
                }
                for noise in self.measurements
            ]
        }

    @override
    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.measurements = [
            GradientNoise(
                saved["step"],
                saved["errors"].numpy(),
                saved["gradient_norm"],
                saved["nonfinite"],
                self._fitted(saved["errors"].numpy(), f"at step {saved['step']}"),
            )
            for saved in state_dict["measurements"]
        ]


def _shards(trainer: Trainer, loader: DataLoader[Any]) -> list[npt.NDArray[np.int64]]:
    """Whose samples a mini-batch is made of: one worker's where workers own their data, otherwise everybody's."""
    strategy = trainer.strategy
    if isinstance(strategy, ScheduledStrategy) and strategy.partition is not None:
        workers = strategy.cluster.num_workers
        return list(strategy.partition.assign(loader.dataset, workers, strategy.seed))  # type: ignore[arg-type]
    if not isinstance(loader.sampler, (RandomSampler, SequentialSampler)):
        rank_zero_warn(
            f"GradientNoiseMonitor draws samples uniformly, the training loader by {type(loader.sampler).__name__}: "
            f"the noise that is measured is not that of training."
        )
    return [np.arange(len(loader.dataset), dtype=np.int64)]  # type: ignore[arg-type]
