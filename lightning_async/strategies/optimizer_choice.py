"""The optimizer and the schedulers of a run: the module's own, or what the strategy was given in their place."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from lightning.fabric.utilities.exceptions import MisconfigurationException
from lightning.fabric.utilities.types import Optimizable
from lightning.pytorch import LightningModule
from lightning.pytorch.cli import LRSchedulerCallable, OptimizerCallable
from lightning.pytorch.utilities.types import LRSchedulerConfig
from torch import nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import ReduceLROnPlateau

from lightning_async._compat import ask_for_optimizers, configure_optimizers
from lightning_async.strategies.checks import check_not_frozen

SchedulerInterval = Literal["epoch", "step"]


@dataclass(frozen=True)
class OptimizerChoice:
    """What takes the place of `LightningModule.configure_optimizers`; nothing does by default.

    Args:
        optimizer: called with the trainable parameters, or, if its first argument is annotated as a module, with the
            LightningModule.
        lr_scheduler: called with that optimizer.
        lr_scheduler_interval: whether the scheduler is stepped after every step or after every epoch.

    Raises:
        TypeError: if what should be called cannot be.
        ValueError: if there is a scheduler without an optimizer, or an interval that is unknown or has no scheduler.
    """

    optimizer: OptimizerCallable | None = None
    lr_scheduler: LRSchedulerCallable | None = None
    lr_scheduler_interval: SchedulerInterval = "epoch"

    def __post_init__(self) -> None:
        for name, example in (
            ("optimizer", "partial(torch.optim.SGD, lr=0.1)"),
            ("lr_scheduler", "partial(torch.optim.lr_scheduler.StepLR, step_size=10)"),
        ):
            given = getattr(self, name)
            if given is not None and not callable(given):
                raise TypeError(
                    f"{name} must be a callable that makes one, such as {example}, or None, got an object of class "
                    f"{type(given).__name__}"
                )
        if self.lr_scheduler is not None and self.optimizer is None:
            raise ValueError("lr_scheduler belongs to the strategy's own optimizer: give optimizer= as well")
        if self.lr_scheduler_interval not in ("epoch", "step"):
            raise ValueError(f"lr_scheduler_interval must be 'epoch' or 'step', got {self.lr_scheduler_interval!r}")
        if self.lr_scheduler_interval != "epoch" and self.lr_scheduler is None:
            raise ValueError("lr_scheduler_interval says when lr_scheduler is stepped: give lr_scheduler= as well")

    def configure(self, module: LightningModule) -> tuple[list[Optimizer], list[LRSchedulerConfig]]:
        """The one optimizer of a run, in a list as Lightning has it, and its schedulers.

        Raises:
            MisconfigurationException: if the module returns no optimizer, or several; or a scheduler whose optimizer is
                being replaced; if what takes their place makes something else than one; or if a scheduler that watches
                a metric is not told which one.
        """
        configuration = ask_for_optimizers(module)
        if self.optimizer is None:
            return _modules_own(module, configuration)
        if configuration is not None and configure_optimizers(configuration, module)[1]:
            raise MisconfigurationException(
                f"{type(module).__name__}.configure_optimizers returns a scheduler, which belongs to the optimizer "
                f"that the strategy's optimizer argument replaces. Return none, and give the strategy lr_scheduler=."
            )
        check_not_frozen(module)
        optimizer = self.optimizer(_what_it_takes(self.optimizer, module))
        if not isinstance(optimizer, Optimizable):
            raise _made("optimizer", optimizer, "One optimizer for all parameters may have several parameter groups.")
        if self.lr_scheduler is None:
            return configure_optimizers(optimizer, module)
        scheduler = self.lr_scheduler(optimizer)
        if not callable(getattr(scheduler, "step", None)):
            raise _made("lr_scheduler", scheduler, "Return the scheduler.")
        config: Any = {"scheduler": scheduler, "interval": self.lr_scheduler_interval}
        if isinstance(scheduler, ReduceLROnPlateau):
            if not hasattr(scheduler, "monitor"):
                raise MisconfigurationException(
                    "lr_scheduler=torch.optim.lr_scheduler.ReduceLROnPlateau does not say which logged metric it "
                    "watches. Use partial(lightning.pytorch.cli.ReduceLROnPlateau, monitor=...), with the metric's "
                    "name."
                )
            config["monitor"] = scheduler.monitor
        return configure_optimizers({"optimizer": optimizer, "lr_scheduler": config}, module)


def _made(name: str, made: object, remedy: str) -> MisconfigurationException:
    return MisconfigurationException(
        f"what the strategy was given as {name} must make one, but it returned an object of class "
        f"{type(made).__name__}. {remedy}"
    )


def _modules_own(module: LightningModule, configuration: Any) -> tuple[list[Optimizer], list[LRSchedulerConfig]]:
    optimizers, schedulers = ([], []) if configuration is None else configure_optimizers(configuration, module)
    if not optimizers or optimizers[0] is None:  # as in {"optimizer": None}
        raise MisconfigurationException(
            f"{type(module).__name__}.configure_optimizers returns no optimizer, so that no step can be made. "
            f"Return one there, or give the strategy optimizer=."
        )
    if len(optimizers) > 1:
        raise MisconfigurationException(
            f"{type(module).__name__}.configure_optimizers returns {len(optimizers)} optimizers, but a "
            f"step changes all parameters at once. Return one optimizer with several parameter groups."
        )
    return optimizers, schedulers


def _what_it_takes(make_optimizer: Any, module: LightningModule) -> Any:
    """The module for an optimizer that assigns rules by module, otherwise the trainable parameters."""
    try:
        first = next(iter(inspect.signature(_what_is_called(make_optimizer), eval_str=True).parameters.values()))
    except (TypeError, ValueError, NameError, StopIteration):
        first = None
    if first is not None and inspect.isclass(first.annotation) and issubclass(first.annotation, nn.Module):
        return module
    return [p for p in module.parameters() if p.requires_grad]


def _what_is_called(make_optimizer: Any) -> Any:
    """The optimizer class that a configuration names, otherwise the callable as it is.

    A configuration arrives as `partial(instantiate, instantiator, Muon, lr=...)`, whose own signature says nothing.
    """
    if isinstance(make_optimizer, partial):
        for part in (make_optimizer.func, *make_optimizer.args):
            if inspect.isclass(part) and issubclass(part, Optimizer):
                return part
    return make_optimizer
