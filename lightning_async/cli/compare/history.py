"""The callback that records a run of a comparison."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from typing import Protocol, TypedDict, cast

import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from typing_extensions import override

from lightning_async.cli.compare.configuration import ComparisonError
from lightning_async.cli.compare.holding import held
from lightning_async.cli.compare.measures import time_to_target
from lightning_async.cli.compare.schema import Target
from lightning_async.cli.nearest import nearest
from lightning_async.strategies import LocalSGDStrategy, ParameterServerStrategy

_REPORT_INTERVAL = 0.25  # seconds of wall time


class _LogicalClock(Protocol):
    @property
    def logical_time(self) -> float: ...


class HistoryState(TypedDict):
    """What `History` keeps in a checkpoint."""

    times: list[float]
    steps: list[int]
    train_loss: list[float]
    metrics: dict[str, list[float]]
    counters: dict[str, list[float]]
    counted: dict[str, float]
    loss_sum: float
    loss_count: int
    diverged: bool
    wall_seconds: float


def logical_time(trainer: Trainer) -> float:
    """Returns the time of the iterate that the trainer holds.

    Raises:
        TypeError: If the strategy keeps no logical time.
    """
    value = getattr(trainer.strategy, "logical_time", None)
    if value is None:
        raise TypeError(
            f"{type(trainer.strategy).__name__} has no logical time; a comparison needs a strategy of lightning_async"
        )
    return float(cast("_LogicalClock", trainer.strategy).logical_time)


class History(Callback):
    """Records every validation metric, and the mean training loss in between, against logical time.

    What the method reports of itself, such as the bits sent so far, is recorded beside them: it may be the axis of a
    table or a figure.

    Args:
        watch: Metrics that must be logged and stay finite, by the key of the comparison that names them; the first that
            is not finite ends the run as diverged.
        stop: End the run once it has arrived here.
        every: Logical time between two evaluations; an iterate that is current at several of them counts at each.
        report: Called with the logical time, at most four times in a second of wall time.
    """

    def __init__(
        self,
        watch: Mapping[str, str] | None = None,
        stop: Target | None = None,
        every: float = math.inf,
        report: Callable[[float], None] | None = None,
    ) -> None:
        self._watch = watch or {}
        self._stop = stop
        self._every = every
        self._report = report
        self._reported = 0.0
        self._resumed_at = time.monotonic()
        self._before = 0.0
        self.times: list[float] = []
        self.steps: list[int] = []
        self.train_loss: list[float] = []
        self.metrics: dict[str, list[float]] = {}
        self.counters: dict[str, list[float]] = {}
        self._counted: dict[str, float] = {}
        self.diverged = False
        self._loss_sum: torch.Tensor | float = 0.0
        self._loss_count = 0

    @property
    def wall_seconds(self) -> float:
        """Seconds of training, those before a restart included."""
        return self._before + time.monotonic() - self._resumed_at

    @override
    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: object, batch: object, batch_idx: int
    ) -> None:
        loss = outputs.get("loss") if isinstance(outputs, dict) else outputs
        if isinstance(loss, torch.Tensor):
            self._loss_sum = self._loss_sum + loss.detach().double()
            self._loss_count += 1
        strategy = trainer.strategy
        if isinstance(strategy, ParameterServerStrategy) and strategy.server and strategy.last_step is not None:
            # Now, as a run that is resumed between a step and its evaluation has forgotten the step.
            self._counted = strategy.server.metrics(strategy.last_step)
        now = time.monotonic()
        if self._report is not None and now - self._reported >= _REPORT_INTERVAL:
            self._reported = now
            self._report(logical_time(trainer))

    @override
    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if trainer.sanity_checking:
            return
        row = {name: float(value) for name, value in trainer.callback_metrics.items()}
        for key, name in self._watch.items():
            if name not in row:
                raise ComparisonError(f"{key}: validation does not log {name!r}; {nearest(name, row)}")
        if isinstance(trainer.strategy, LocalSGDStrategy):
            self._counted = trainer.strategy.metrics()
        if self.steps and self.steps[-1] == trainer.global_step:
            # A run that is resumed from a checkpoint made just after an evaluation may repeat that evaluation.
            self._drop_last()
        self._append(logical_time(trainer), trainer.global_step, row)
        if any(not math.isfinite(row[name]) for name in self._watch.values()):
            self.diverged = True
            trainer.should_stop = True
        if self._stop is not None and self._stop.metric in self.metrics:
            recent = slice(-self._stop.window, None)
            index, times = held(self.times[recent], self._every, self.times[-1], self._stop.window)
            values = self.metrics[self._stop.metric][recent]
            if time_to_target(times, [values[i] for i in index], self._stop) is not None:
                trainer.should_stop = True

    def _append(self, now: float, step: int, row: dict[str, float]) -> None:
        mean_loss = float(self._loss_sum) / self._loss_count if self._loss_count else math.nan
        self._loss_sum, self._loss_count = 0.0, 0
        for columns, values_now in ((self.metrics, row), (self.counters, self._counted)):
            for name in values_now:
                columns.setdefault(name, [math.nan] * len(self.times))
            for name, values in columns.items():
                values.append(values_now.get(name, math.nan))
        self.times.append(now)
        self.steps.append(step)
        self.train_loss.append(mean_loss)

    def _drop_last(self) -> None:
        self.steps.pop()
        for column in (self.times, self.train_loss, *self.metrics.values(), *self.counters.values()):
            column.pop()

    @override
    def state_dict(self) -> dict[str, object]:
        state: HistoryState = {
            "times": list(self.times),
            "steps": list(self.steps),
            "train_loss": list(self.train_loss),
            "metrics": {name: list(values) for name, values in self.metrics.items()},
            "counters": {name: list(values) for name, values in self.counters.items()},
            "counted": dict(self._counted),
            "loss_sum": float(self._loss_sum),
            "loss_count": self._loss_count,
            "diverged": self.diverged,
            "wall_seconds": self.wall_seconds,
        }
        return cast("dict[str, object]", state)

    @override
    def load_state_dict(self, state_dict: dict[str, object]) -> None:
        state = cast("HistoryState", state_dict)
        self.times, self.steps = list(state["times"]), list(state["steps"])
        self.train_loss = list(state["train_loss"])
        self.metrics = {name: list(values) for name, values in state["metrics"].items()}
        self.counters = {name: list(values) for name, values in state["counters"].items()}
        self._counted = dict(state["counted"])
        self._loss_sum, self._loss_count = state["loss_sum"], state["loss_count"]
        self.diverged = state["diverged"]
        self._before, self._resumed_at = state["wall_seconds"], time.monotonic()
