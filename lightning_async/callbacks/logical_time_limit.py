"""A budget of logical time."""

from __future__ import annotations

import math
from typing import Any

from lightning.fabric.utilities.exceptions import MisconfigurationException
from lightning.pytorch import Callback, LightningModule, Trainer
from typing_extensions import override

from lightning_async.arguments import real
from lightning_async.callbacks.strategy import simulated_strategy, stop
from lightning_async.strategies import ParameterServerStrategy


class LogicalTimeLimit(Callback):
    """Stops training before the first step whose logical time exceeds the limit; a step at the limit is made.

    Args:
        time: the limit > 0, in the unit of the worker times.

    Raises:
        TypeError: if the limit is not a number.
        ValueError: if it is not positive.

    Example:
        >>> from lightning.pytorch import Trainer
        >>> trainer = Trainer(
        ...     strategy="asgd", max_epochs=-1, callbacks=[LogicalTimeLimit(300.0)], accelerator="cpu", logger=False
        ... )
    """

    def __init__(self, time: float) -> None:
        self.time = real("time", time, above=0.0, finite=False)

    @override
    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        if stage != "fit":
            return
        simulated_strategy(trainer, self)
        for name, least in (("min_steps", trainer.min_steps), ("min_epochs", trainer.min_epochs)):
            if least:
                raise MisconfigurationException(
                    f"Trainer({name}={least}) would have the run go on after LogicalTimeLimit({self.time:g}) has ended "
                    f"it. Remove {name}, or the limit."
                )

    @override
    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        simulated_strategy(trainer, self).check_budget(self.time)
        self._look_until(trainer, self.time)
        self._stop_if_next_is_late(trainer)

    @override
    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        self._stop_if_next_is_late(trainer)

    @override
    def teardown(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        if stage == "fit":
            self._look_until(trainer, math.inf)

    @override
    def on_exception(self, trainer: Trainer, pl_module: LightningModule, exception: BaseException) -> None:
        self._look_until(trainer, math.inf)

    def _look_until(self, trainer: Trainer, time: float) -> None:
        """Look for steps of a server until then, as one that is never complete would be looked for in vain."""
        strategy = trainer.strategy
        if isinstance(strategy, ParameterServerStrategy) and strategy.server is not None:
            strategy.server.horizon = time

    def _stop_if_next_is_late(self, trainer: Trainer) -> None:
        if simulated_strategy(trainer, self).next_time > self.time:
            stop(trainer, f"LogicalTimeLimit({self.time:g})")
