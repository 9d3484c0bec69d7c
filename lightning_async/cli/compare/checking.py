"""What is checked of a run before any run of the comparison trains."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from torch.nn.parameter import is_lazy

from lightning_async.cli.compare.plan import Run
from lightning_async.cli.training import TrainingCLI
from lightning_async.strategies import LocalSGDStrategy, ParameterServerStrategy
from lightning_async.strategies.checks import check_trainer
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
            _check_first_step(strategy, cli, run.budget)
        elif isinstance(strategy, LocalSGDStrategy):
            check_replica_trainer(cli.trainer, cli.model, strategy.method)
            _check_first_step(strategy, cli, run.budget)


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


def _check_first_step(strategy: ParameterServerStrategy | LocalSGDStrategy, cli: TrainingCLI, budget: float) -> None:
    parameters = [p for p in cli.model.parameters() if p.requires_grad]
    if not parameters or any(map(is_lazy, parameters)):
        return  # the model is made when training starts, so that the size of a message is not known before
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
