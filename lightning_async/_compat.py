"""Every private name of Lightning that is used here, in one place.

Checked against lightning 2.6. If an upgrade breaks something, it breaks in this file; or in `strategies/unfinished.py`,
which has those of the loops and of logged values that a resumed run begins with.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

import torch
from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.core.hooks import DataHooks
from lightning.pytorch.core.optimizer import (
    _configure_optimizers,
    _configure_schedulers_automatic_opt,
    _validate_optimizers_attached,
    _validate_scheduler_api,
)
from lightning.pytorch.loops.optimization.automatic import Closure, ClosureResult
from lightning.pytorch.strategies import SingleDeviceStrategy, StrategyRegistry
from lightning.pytorch.trainer.call import _call_lightning_module_hook
from lightning.pytorch.utilities.model_helpers import is_overridden
from lightning.pytorch.utilities.signature_utils import is_param_in_hook_signature
from lightning.pytorch.utilities.types import LRSchedulerConfig, OptimizerLRScheduler
from torch import Tensor
from torch.optim import Optimizer

__all__ = [
    "NEVER",
    "Closure",
    "StepValues",
    "StrategyRegistry",
    "ask_for_optimizers",
    "configure_optimizers",
    "current_batch",
    "forget_training_loader",
    "has_batch_hooks",
    "is_overridden",
    "logging_step",
    "nodes_asked_for",
    "owners_of_batch_hooks",
    "run_validation",
    "set_no_loss",
    "set_step_loss",
    "should_log",
    "show_progress",
    "takes_dataloader_iter",
    "use_device",
    "validate_after_this_batch",
    "validates_by_the_clock",
]


def configure_optimizers(
    configuration: OptimizerLRScheduler, module: LightningModule
) -> tuple[list[Optimizer], list[LRSchedulerConfig]]:
    """What `LightningModule.configure_optimizers` might have returned, as optimizers and scheduler configurations."""
    optimizers, schedulers, monitor = _configure_optimizers(configuration)  # type: ignore[arg-type]
    configs = _configure_schedulers_automatic_opt(schedulers, monitor)
    _validate_optimizers_attached(optimizers, configs)
    _validate_scheduler_api(configs, module)
    return optimizers, configs


def ask_for_optimizers(module: LightningModule) -> OptimizerLRScheduler:
    """Call `LightningModule.configure_optimizers` as Lightning does."""
    return cast(
        OptimizerLRScheduler, _call_lightning_module_hook(module.trainer, "configure_optimizers", pl_module=module)
    )


def takes_dataloader_iter(module: LightningModule) -> bool:
    """Whether `training_step` fetches its batches itself."""
    return bool(is_param_in_hook_signature(module.training_step, "dataloader_iter", explicit=True))


def forget_training_loader(trainer: Trainer) -> None:
    """Have the Trainer ask for its training loader again, if it has one already.

    It has when `configure_optimizers` read `trainer.estimated_stepping_batches`, before a checkpoint was loaded.
    """
    trainer.fit_loop._combined_loader = None


def owners_of_batch_hooks(trainer: Trainer, module: LightningModule) -> tuple[DataHooks, ...]:
    """Who may have hooks for batches on their way to the device: the module, and its data module if there is one."""
    selector = trainer._data_connector._datahook_selector
    data = None if selector is None else selector.datamodule
    return (module,) if data is None else (module, data)


def has_batch_hooks(owner: DataHooks) -> bool:
    """Whether an owner has such a hook of its own now, in its class or on the object, whatever stands there."""
    return (
        getattr(owner.transfer_batch_to_device, "__func__", None) is not DataHooks.transfer_batch_to_device
        or getattr(owner.on_after_batch_transfer, "__func__", None) is not DataHooks.on_after_batch_transfer
    )


def nodes_asked_for(trainer: Trainer) -> int:
    """The Trainer's `num_nodes`; its attribute of that name is the strategy's, which may have none."""
    return trainer._accelerator_connector._num_nodes_flag


def use_device(strategy: SingleDeviceStrategy, device: torch.device) -> None:
    """Set the device of a strategy after it was made."""
    strategy._root_device = device


@contextmanager
def current_batch(trainer: Trainer, batch: Any) -> Iterator[None]:
    """Let `self.log` take the batch size from one of several mini-batches of a step."""
    results = trainer._results
    if results is None:
        yield
        return
    whole, size = results.batch, results.batch_size
    results.batch, results.batch_size = batch, None
    try:
        yield
    finally:
        results.batch, results.batch_size = whole, size


class StepValues:
    """Means of the values that `self.log(..., on_step=True)` was given by the jobs of one step."""

    def __init__(self, trainer: Trainer) -> None:
        self._trainer = trainer
        # A job that does not log a value leaves that of an earlier one, which must not be taken twice.
        self._seen = {key: metric._forward_cache for key, metric in self._metrics.items()}
        self._sums: dict[str, Tensor] = {}
        self._counts: dict[str, int] = {}

    @property
    def _metrics(self) -> dict[str, Any]:
        return self._trainer._results or {}

    def collect(self) -> None:
        """Take the values of the job that has just run."""
        for key, metric in self._metrics.items():
            value = metric._forward_cache
            if value is self._seen.get(key):
                continue
            self._seen[key] = value
            if metric.meta.on_step and isinstance(value, Tensor):
                self._sums[key] = self._sums[key] + value if key in self._sums else value
                self._counts[key] = self._counts.get(key, 0) + 1

    def publish(self) -> None:
        """Let loggers and progress bar see the means."""
        metrics = self._metrics
        for key, total in self._sums.items():
            metric = metrics[key]
            metric._forward_cache = total / self._counts[key]
            if metric.is_tensor and not metric.meta.on_epoch:
                metric.value = metric._forward_cache


def set_no_loss(closure: Closure) -> None:
    """Let a closure that was not run, as the step has no job, count as one whose `training_step` returned None."""
    closure._result = ClosureResult(None)


def set_step_loss(closure: Closure, loss: Tensor | None) -> None:
    """Set the loss that `on_train_batch_end` finds in its `outputs`; the closure may not have been called at all."""
    extra = closure._result.extra if closure._result is not None else {}
    closure._result = ClosureResult(loss, extra=extra)


def logging_step(trainer: Trainer) -> int:
    """The step under which Lightning logs what belongs to the current batch."""
    return trainer.fit_loop.epoch_loop._batches_that_stepped


def should_log(trainer: Trainer) -> bool:
    """Whether, in `on_train_batch_end`, Lightning is about to log the step that has just been made."""
    return trainer._logger_connector.should_update_logs or bool(trainer.fast_dev_run)  # type: ignore[attr-defined]


def show_progress(trainer: Trainer, name: str, text: str) -> None:
    """Show a text in the progress bar; a number would be shown with three digits."""
    metrics: dict[str, Any] = trainer._logger_connector._progress_bar_metrics
    metrics[name] = text


def validates_by_the_clock(trainer: Trainer) -> bool:
    """Whether `val_check_interval` is a duration of real time."""
    return trainer._val_check_time_interval is not None  # type: ignore[attr-defined]


def validate_after_this_batch(trainer: Trainer, validate: bool) -> None:
    """Decide, in `on_train_batch_end`, whether a validation follows. Works with `check_val_every_n_epoch=None`."""
    trainer.val_check_batch = trainer.fit_loop.epoch_loop.total_batch_idx + 1 if validate else NEVER


NEVER = 2**62
"""A validation interval that no run reaches."""


def run_validation(trainer: Trainer) -> None:
    """Validate now, between two batches of a fit, as Lightning's training loop does it."""
    first = trainer._logger_connector._first_loop_iter
    val_loop = trainer.fit_loop.epoch_loop.val_loop
    has_run = val_loop._has_run
    val_loop.restarting = False
    trainer.validating = True
    val_loop.run()
    trainer.training = True
    trainer._logger_connector._first_loop_iter = first
    # A loop that is restarted at the end of an epoch believes that the epoch is over if its validation has run, and
    # then never gets beyond that epoch.
    val_loop._has_run = has_run
