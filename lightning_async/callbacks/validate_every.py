"""Validation on a grid of logical time."""

from __future__ import annotations

import math
from typing import Any

from lightning.fabric.utilities.exceptions import MisconfigurationException
from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.trainer.states import TrainerFn
from lightning_utilities.core.rank_zero import rank_zero_warn
from typing_extensions import override

from lightning_async._compat import NEVER, run_validation, validate_after_this_batch, validates_by_the_clock
from lightning_async.arguments import real
from lightning_async.callbacks.strategy import simulated_strategy


class ValidateEvery(Callback):
    """Validates the iterate that is current at each multiple of a logical time.

    The iterate at time t is the one after the last step of time <= t; before the first step, the initial one. Methods
    are so compared at the same logical times, however many updates they make. An iterate that stays current over
    several multiples is validated once, at the first. The Trainer's own validation interval is not used; a run that is
    told to stop is validated where it stops, as always with Lightning.

    Args:
        logical_time: distance of the grid > 0, in the unit of the worker times.

    Raises:
        TypeError: if the distance is not a number.
        ValueError: if it is not positive and finite.

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
        self.logical_time = real("logical_time", logical_time, above=0.0, finite=False)
        if self.logical_time == math.inf:
            raise ValueError("logical_time must be finite; to validate never, use Trainer(limit_val_batches=0)")
        self._passed = 0
        """Number of the last multiple whose iterate has been validated."""

    @override
    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        if stage != "fit":
            return
        simulated_strategy(trainer, self)
        if trainer.global_step == 0:  # before a checkpoint is loaded, which may be that of the initial iterate
            self._passed = 0
        tied_to = None
        if validates_by_the_clock(trainer):
            tied_to = "val_check_interval is a duration, which ties validation to real time"
        elif trainer.check_val_every_n_epoch is not None:
            tied_to = f"check_val_every_n_epoch={trainer.check_val_every_n_epoch} ties validation to epochs"
        if tied_to is not None:
            raise MisconfigurationException(
                f"ValidateEvery decides when to validate, but {tied_to}. Use "
                f"Trainer(check_val_every_n_epoch=None, val_check_interval=1)."
            )

    @override
    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        trainer.val_check_batch = NEVER
        if not trainer.enable_validation:
            rank_zero_warn(
                f"ValidateEvery(logical_time={self.logical_time}) has nothing to validate: {type(pl_module).__name__} "
                f"has no validation_step, or there are no validation data, or limit_val_batches is 0."
            )
        if trainer.enable_validation and self._due(trainer):
            # The initial iterate, or a run that was interrupted between a step and the validation that follows it.
            if simulated_strategy(trainer, self).begins_after_batch:
                validate_after_this_batch(trainer, True)
            else:
                run_validation(trainer)

    @override
    def on_train_epoch_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        trainer.val_check_batch = NEVER  # loaders that were reloaded have reset it

    @override
    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        validate_after_this_batch(trainer, self._due(trainer))

    @override
    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if trainer.state.fn == TrainerFn.FITTING and not trainer.sanity_checking:
            self._passed = max(self._passed, self._multiples_before(simulated_strategy(trainer, self).next_time))

    @override
    def on_fit_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if trainer.enable_validation and self._due(trainer):
            # A run that was interrupted after its very last step: it is resumed, and does not train any more.
            trainer.strategy.model_to_device()
            run_validation(trainer)
            pl_module.cpu()

    def _due(self, trainer: Trainer) -> bool:
        """Whether the iterate is current at a multiple that was not passed yet."""
        strategy = simulated_strategy(trainer, self)
        last = self._multiples_before(strategy.next_time)
        first = math.ceil(strategy.logical_time / self.logical_time)
        return last >= max(first, self._passed + 1)

    def _multiples_before(self, time: float) -> int:
        """Number of the last multiple before `time`, 0 if there is none."""
        multiples = time / self.logical_time
        if math.isinf(multiples):
            raise MisconfigurationException(
                f"ValidateEvery(logical_time={self.logical_time}) has more multiples before logical time {time:g} than "
                f"can be counted. Use a grid as coarse as the worker times or coarser."
            )
        return max(0, math.ceil(multiples) - 1)

    @override
    def state_dict(self) -> dict[str, Any]:
        return {"passed": self._passed}

    @override
    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self._passed = state_dict["passed"]
