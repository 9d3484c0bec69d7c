"""Validation on a grid of logical time."""

from __future__ import annotations

import math
from typing import Any

from lightning.fabric.utilities.exceptions import MisconfigurationException
from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.trainer.states import TrainerFn
from typing_extensions import override

from lightning_async._compat import NEVER, run_validation, validate_after_this_batch
from lightning_async.callbacks.strategy import simulated_strategy
from lightning_async.methods.arguments import positive


class ValidateEvery(Callback):
    """Validates the iterate that is current at each multiple of a logical time.

    The iterate at time t is the one after the last step of time <= t. Methods are so compared at the same logical
    times, however many updates they make. An iterate that stays current over several multiples is validated once, at
    the first. The Trainer's own validation interval is not used.

    Args:
        logical_time: distance of the grid > 0, in the unit of the worker times.

    Raises:
        ValueError: if the distance is not positive.

    Example:
        >>> from lightning.pytorch import Trainer
        >>> trainer = Trainer(
        ...     strategy="asgd",
        ...     callbacks=[ValidateEvery(logical_time=2.0)],
        ...     check_val_every_n_epoch=None,
        ...     val_check_interval=1,
        ...     accelerator="cpu",
        ...     logger=False,
        ... )
    """

    def __init__(self, logical_time: float) -> None:
        self.logical_time = positive("logical_time", logical_time)
        self._passed = 0
        """Number of the last multiple whose iterate has been validated."""

    @override
    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        if stage != "fit":
            return
        simulated_strategy(trainer, self)
        if trainer.check_val_every_n_epoch is not None:
            raise MisconfigurationException(
                f"ValidateEvery decides when to validate, but check_val_every_n_epoch="
                f"{trainer.check_val_every_n_epoch} ties validation to epochs. Use "
                f"Trainer(check_val_every_n_epoch=None, val_check_interval=1)."
            )

    @override
    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        trainer.val_check_batch = NEVER
        if trainer.global_step == 0:
            self._passed = 0
        elif self._due(trainer) and trainer.enable_validation:
            # The run was interrupted between a step and the validation that follows it.
            self._advance(trainer)
            run_validation(trainer)

    @override
    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        validate_after_this_batch(trainer, self._due(trainer))

    @override
    def on_validation_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if trainer.state.fn == TrainerFn.FITTING and not trainer.sanity_checking:
            self._advance(trainer)

    def _due(self, trainer: Trainer) -> bool:
        """Whether a multiple that was not passed yet lies before the next step."""
        return self._multiples_before(simulated_strategy(trainer, self).next_time) > self._passed

    def _advance(self, trainer: Trainer) -> None:
        self._passed = max(self._passed, self._multiples_before(simulated_strategy(trainer, self).next_time))

    def _multiples_before(self, time: float) -> int:
        """Number of the last multiple before `time`, 0 if there is none."""
        return max(0, math.ceil(time / self.logical_time) - 1)

    @override
    def state_dict(self) -> dict[str, Any]:
        return {"passed": self._passed}

    @override
    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self._passed = state_dict["passed"]
