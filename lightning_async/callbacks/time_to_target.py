"""How long it takes to reach a target."""

from __future__ import annotations

from collections import deque
from typing import Any, Literal

from lightning.fabric.utilities.exceptions import MisconfigurationException
from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.trainer.states import TrainerFn
from lightning_utilities.core.rank_zero import rank_zero_warn
from typing_extensions import override

from lightning_async._compat import logging_step
from lightning_async.arguments import boolean, choice, count, real
from lightning_async.callbacks.strategy import simulated_strategy, stop
from lightning_async.callbacks.validate_every import ValidateEvery
from lightning_async.target import held_multiples, reached


class TimeToTarget(Callback):
    """Records the logical time at which a validation metric first reaches a value.

    With `window` w, the mean of the last w validations must reach it. Under `ValidateEvery` it is the mean at the last
    w multiples: an iterate that stays current over several is validated once, and counts at each, when the next one is
    validated. The result is in the attribute `time`, None as long as the target was not reached, and is logged once as
    `time_to_target/<metric>`, or as `time_to_target/<metric>/<value>` if there are several targets for the metric.

    Args:
        metric: name of a logged validation metric.
        value: the target.
        mode: "max" if larger is better, "min" if smaller is.
        window: number of validations that are averaged.
        stop: whether training stops when the target is reached.

    Raises:
        TypeError: if an argument is of the wrong kind.
        ValueError: if `mode` is neither, `window` is below 1, `value` is NaN, or `metric` is empty.

    Example:
        >>> from lightning.pytorch import Trainer
        >>> target = TimeToTarget("val/acc", 0.82, mode="max", window=3, stop=True)
        >>> trainer = Trainer(strategy="asgd", callbacks=[target], accelerator="cpu", logger=False)
    """

    def __init__(
        self, metric: str, value: float, mode: Literal["max", "min"], window: int = 1, stop: bool = False
    ) -> None:
        if not isinstance(metric, str) or not metric:
            error = ValueError if isinstance(metric, str) else TypeError
            raise error(f"metric must be the name of a logged validation metric, got {metric!r}")
        self.metric = metric
        self.value = real("value", value, finite=False)
        self.mode = choice("mode", mode, ("max", "min"))
        self.window = count("window", window)
        self.stop = boolean("stop", stop)
        self.time: float | None = None
        """Logical time at which the target was reached; None if it was not."""
        self._last: deque[float] = deque(maxlen=self.window)
        self._last_at: float | None = None  # when the iterate was made that was validated last

    @property
    def state_key(self) -> str:
        """Two targets of one run have states of their own."""
        return f"TimeToTarget[{self.metric},{self.value},{self.mode},{self.window}]"

    @override
    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        if stage == "fit":
            simulated_strategy(trainer, self)
            if trainer.global_step == 0:  # before the initial iterate is validated, and a checkpoint loaded
                self.time = self._last_at = None
                self._last.clear()

    @override
    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if not trainer.enable_validation:
            rank_zero_warn(
                f"TimeToTarget({self.metric!r}) will never see its metric: {type(pl_module).__name__} has no "
                f"validation_step, or there are no validation data, or limit_val_batches is 0."
            )
        if self.stop and self.time is not None:
            self._stop(trainer)  # the run was interrupted when it had reached the target

    @override
    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if trainer.state.fn != TrainerFn.FITTING or trainer.sanity_checking or self.time is not None:
            return
        if self.metric not in trainer.callback_metrics:
            raise MisconfigurationException(
                f"TimeToTarget waits for {self.metric!r}, which validation did not log; logged were: "
                f"{', '.join(sorted(trainer.callback_metrics)) or 'none'}"
            )
        time = simulated_strategy(trainer, self).logical_time
        value = float(trainer.callback_metrics[self.metric])
        for seen, at in [*self._held(trainer, until=time), (value, time)]:
            self._last.append(seen)
            if len(self._last) == self.window and reached(self._last, self.value, self.mode):
                self._arrive(trainer, at)
                break
        self._last_at = time

    def _held(self, trainer: Trainer, until: float) -> list[tuple[float, float]]:
        """The last validation at further multiples at which its iterate was current, and their logical times."""
        if self._last_at is None:
            return []
        callbacks: list[Callback] = trainer.callbacks  # type: ignore[attr-defined]
        return [
            (self._last[-1], multiple * other.logical_time)
            for other in callbacks
            if isinstance(other, ValidateEvery)
            for multiple in held_multiples(self._last_at, until, other.logical_time, until)[: self.window]
        ]

    def _arrive(self, trainer: Trainer, time: float) -> None:
        self.time = time
        for logger in trainer.loggers:
            logger.log_metrics({self._logged_name(trainer): time, "logical_time": time}, step=logging_step(trainer))
        if self.stop:
            self._stop(trainer)

    def _stop(self, trainer: Trainer) -> None:
        stop(trainer, f"TimeToTarget({self.metric!r}, {self.value:g})")

    def _logged_name(self, trainer: Trainer) -> str:
        callbacks: list[Callback] = trainer.callbacks  # type: ignore[attr-defined]
        targets = [other for other in callbacks if isinstance(other, TimeToTarget) and other.metric == self.metric]
        return f"time_to_target/{self.metric}" + (f"/{self.value:g}" if len(targets) > 1 else "")

    @override
    def state_dict(self) -> dict[str, Any]:
        return {"time": self.time, "last": list(self._last), "last_at": self._last_at}

    @override
    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.time = state_dict["time"]
        self._last = deque(state_dict["last"], maxlen=self.window)
        self._last_at = state_dict.get("last_at")  # not kept before
