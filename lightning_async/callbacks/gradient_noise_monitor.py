"""How heavy the tail of the gradient noise is, during training."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from lightning.fabric.utilities.exceptions import MisconfigurationException
from lightning.pytorch import Callback, LightningModule, Trainer
from lightning_utilities.core.rank_zero import rank_zero_warn
from torch.utils.data import DataLoader, IterableDataset, RandomSampler, SequentialSampler
from typing_extensions import override

from lightning_async.arguments import count, random_seed, real
from lightning_async.callbacks.gradient_errors import SampledBatches, draw_indices, gradient_errors
from lightning_async.callbacks.gradient_noise import GradientNoise
from lightning_async.callbacks.module_copy import copied
from lightning_async.callbacks.version_folder import new_version
from lightning_async.data.step_loader import StepLoader
from lightning_async.strategies.scheduled import ScheduledStrategy
from lightning_async.tail_index import SubWeibullTail, estimate_tail


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
    measurement as well. A measurement costs 2 `num_samples` gradients and, while it lasts, the memory of a second
    module and two gradients.

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
        folder: where to write a plot of every measurement; none are written if None. Every fit makes a folder of its
            own in it, `version_0`, `version_1` and so on, so that no plot is ever overwritten.

    Raises:
        TypeError: if an argument is of the wrong kind.
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
        self.steps = _updates(steps)
        self.every_n_steps = None if every_n_steps is None else count("every_n_steps", every_n_steps)
        if not self.steps and every_n_steps is None:
            raise ValueError("steps is empty and every_n_steps is None: give one of them, or nothing is ever measured")
        self.num_samples = count("num_samples", num_samples, at_least=20)
        self.num_order_statistics = num_order_statistics
        if num_order_statistics is not None:
            self.num_order_statistics = count(
                "num_order_statistics",
                num_order_statistics,
                at_least=5,
                at_most=self.num_samples - 1,
                note=f", below num_samples={self.num_samples}",
            )
        self.confidence = real("confidence", confidence, above=0.0, below=1.0)
        self.num_bootstrap = count("num_bootstrap", num_bootstrap, at_least=100)
        self.batch_size = None if batch_size is None else count("batch_size", batch_size)
        self.seed = random_seed(seed)
        if folder is not None and not isinstance(folder, (str, os.PathLike)):
            raise TypeError(f"folder must be the path of a folder, or None for no plots; got {folder!r}")
        self.folder = folder
        self.measurements: list[GradientNoise] = []
        """One per moment, in order."""
        self._plots: Path | None = None

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
        # What would fail at a measurement fails before the first step.
        self._loader(trainer)
        copied(pl_module)
        self._plots = None if self.folder is None else new_version(self.folder)
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
        if self._plots is not None:
            noise.figure().savefig(self._plots / f"gradient_noise_{step:08d}.png", dpi=120)

    def _measured(self, trainer: Trainer, pl_module: LightningModule) -> GradientNoise:
        loader, batch_size = self._loader(trainer)
        indices = draw_indices(_shards(trainer, loader), batch_size, self.num_samples, self.seed)
        errors = gradient_errors(trainer, pl_module, SampledBatches(loader, indices, self.seed), self.seed)
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
    """Whose samples a mini-batch is made of: one owner's where the data are split, otherwise everybody's."""
    strategy = trainer.strategy
    if isinstance(strategy, ScheduledStrategy) and strategy.partition is not None:
        owners = strategy._num_shards()  # of a coded method, as many as partitions of the data
        return list(strategy.partition.assign(loader.dataset, owners, strategy.seed))  # type: ignore[arg-type]
    if not isinstance(loader.sampler, (RandomSampler, SequentialSampler)):
        rank_zero_warn(
            f"GradientNoiseMonitor draws samples uniformly, the training loader by {type(loader.sampler).__name__}: "
            f"the noise that is measured is not that of training."
        )
    return [np.arange(len(loader.dataset), dtype=np.int64)]  # type: ignore[arg-type]


def _updates(steps: Sequence[int]) -> tuple[int, ...]:
    if not isinstance(steps, (Sequence, np.ndarray)) or isinstance(steps, (str, bytes)):
        raise TypeError(f"steps must be a list of numbers of updates, such as [0, 500], got {steps!r}")
    return tuple(count(f"steps[{index}]", step, at_least=0) for index, step in enumerate(steps))
