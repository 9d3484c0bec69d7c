"""What is checked of a run before any run of the comparison trains."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from lightning.fabric.utilities.exceptions import MisconfigurationException
from lightning.pytorch import LightningModule
from torch.nn.parameter import is_lazy

from lightning_async.cli.compare.plan import Run
from lightning_async.cli.training import TrainingCLI
from lightning_async.strategies import LocalSGDStrategy, ParameterServerStrategy
from lightning_async.strategies.checks import check_not_frozen, check_trainer
from lightning_async.strategies.replica_checks import check_replica_trainer


def check(run: Run) -> None:
    """Builds everything a run needs, and the first step of its schedule, without training it.

    Raises:
        Exception: Whatever the configuration or one of its classes objects to.
    """
    with _quiet():
        cli = TrainingCLI.from_config(run.config)
        strategy = cli.trainer.strategy
        if cli.trainer.limit_val_batches == 0:
            raise ValueError(
                "trainer.limit_val_batches is 0, but the target is measured on validation data: remove it, or use at "
                "least 1"
            )
        if isinstance(strategy, ParameterServerStrategy):
            check_trainer(cli.trainer, cli.model, strategy.method)
        elif isinstance(strategy, LocalSGDStrategy):
            check_replica_trainer(cli.trainer, cli.model, strategy.method)
        else:
            return
        if _is_made(cli.model):
            check_not_frozen(cli.model)
            _check_first_step(strategy, cli.model, run.budget)
            _check_optimizers(strategy, cli)


@contextmanager
def _quiet() -> Iterator[None]:
    """Leave out warnings and messages: each of them comes again in the log of the run."""
    loggers = [logging.getLogger(name) for name in ("lightning.pytorch", "lightning.fabric")]
    levels = [logger.level for logger in loggers]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for logger in loggers:
            logger.setLevel(logging.ERROR)
        try:
            yield
        finally:
            for logger, level in zip(loggers, levels, strict=True):
                logger.setLevel(level)


def _is_made(module: LightningModule) -> bool:
    """Whether the parameters are there already, and not only when training starts."""
    parameters = list(module.parameters())
    return bool(parameters) and not any(map(is_lazy, parameters))


def _check_optimizers(strategy: ParameterServerStrategy | LocalSGDStrategy, cli: TrainingCLI) -> None:
    cli.model.trainer = cli.trainer
    try:
        strategy.make_optimizers(cli.model)
    except MisconfigurationException:
        raise
    except Exception:
        return  # it may need what is there in training only, such as the data; what is wrong then is said there


def _check_first_step(
    strategy: ParameterServerStrategy | LocalSGDStrategy, module: LightningModule, budget: float
) -> None:
    parameters = [p for p in module.parameters() if p.requires_grad]
    size = sum(p.numel() for p in parameters)
    strategy.method.bind(size, sum(p.numel() * p.element_size() for p in parameters) / size)
    if isinstance(strategy, LocalSGDStrategy):
        strategy.method.check_budget(strategy.cluster, budget)
    first = next(strategy.method.steps(strategy.cluster), None)
    if first is not None and first.time > budget:
        raise ValueError(
            f"the first step of {type(strategy.method).__name__} is at logical time {first.time:g}, after the budget "
            f"{budget:g}: raise the budget to several times that"
        )
