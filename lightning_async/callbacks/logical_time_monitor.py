"""Logs what a simulated cluster does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from typing import Any

import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.loggers import WandbLogger
from lightning.pytorch.trainer.states import TrainerFn
from typing_extensions import override

from lightning_async._compat import logging_step, should_log, show_progress
from lightning_async.callbacks.strategy import simulated_strategy
from lightning_async.methods.server import ParameterServer
from lightning_async.simulation import Step
from lightning_async.strategies import LocalSGDStrategy, ParameterServerStrategy
from lightning_async.strategies.scheduled import ScheduledStrategy


class LogicalTimeMonitor(Callback):
    """Logs logical time, delays, discarded work and utilization, with any logger, and shows logical time as progress.

    Logged whenever the Trainer logs a step (`log_every_n_steps`):

    * `logical_time` of the step;
    * `delay/mean` and `delay/max` of the jobs used since the last time, in server updates;
    * `discarded`: jobs refused or stopped, and `nonfinite`: gradients left out, both in total;
    * `utilization`: worker time spent on jobs that were used, over n times the logical time elapsed, in total;
    * `busy`: worker time spent on any job, over n times the logical time elapsed, in total;
    * `bits_sent` by all workers together: of every gradient in full, used or not, unless the method counts its own;
    * what the method has to say (`Method.metrics`), as `relative_error` of gradient coding.

    With replicas, over completed rounds: `rounds`; `bytes/round`, of the last one, `bytes/total` and `bits_sent`, by
    all workers together; `time/hidden`, of messages that workers computed through, and `time/idle`, both the mean over
    workers, `time/idle_max`, and `time/idle/<worker>` of each; `utilization`; and `disagreement`, the sum of squared
    distances of the replicas to their mean.

    `logical_time` is logged beside every validation metric as well. With Weights & Biases it is declared as the step
    metric, so that curves of several methods share the axis.

    Example:
        >>> from lightning.pytorch import Trainer
        >>> monitor = LogicalTimeMonitor()
        >>> trainer = Trainer(strategy="clipped_asgd", callbacks=[monitor], accelerator="cpu", logger=False)
    """

    def __init__(self) -> None:
        self._counted = 0  # steps
        self._used_time = 0.0
        self._busy_time = 0.0
        self._delays = _Delays()

    @override
    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        if stage == "fit":
            simulated_strategy(trainer, self)

    @override
    def on_fit_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        for logger in trainer.loggers:
            if isinstance(logger, WandbLogger):
                logger.experiment.define_metric("logical_time")
                logger.experiment.define_metric("*", step_metric="logical_time", step_sync=True)

    @override
    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        strategy = simulated_strategy(trainer, self)
        server = _server(strategy)
        if server is None:
            return
        if self._counted > server.completed:
            self._counted, self._used_time, self._delays = 0, 0.0, _Delays()
        # Steps that were made without this callback, or after its state was saved, are counted all the same.
        for step in islice(server.method.steps(strategy.cluster), self._counted, server.completed):
            self._count(step, server)

    @override
    def on_train_batch_start(self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int) -> None:
        strategy = simulated_strategy(trainer, self)
        server = _server(strategy)
        if server is not None:
            # Now the clock of the cluster shows the time of this step; after it, it may show that of the next one.
            server.next_step()
            self._busy_time = server.cluster.busy_time

    @override
    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        strategy = simulated_strategy(trainer, self)
        step, server = strategy.last_step, _server(strategy)
        if step is None:
            return
        if server is not None:
            self._count(step, server)
        show_progress(trainer, "logical_time", f"{step.time:.6g}")
        # Logged at every step, so that it always stands beside what the module logs.
        pl_module.log("logical_time", _exact(step.time), on_step=True, on_epoch=False, batch_size=1)
        if not should_log(trainer):
            return
        values = self._of_server(server, step) if server is not None else {}
        if isinstance(strategy, LocalSGDStrategy):
            values = strategy.metrics()
        for logger in trainer.loggers:
            logger.log_metrics({"logical_time": step.time, **values}, step=logging_step(trainer))

    def _of_server(self, server: ParameterServer, step: Step) -> dict[str, float]:
        values = {"discarded": float(server.discarded), "nonfinite": float(server.nonfinite)}
        values |= server.metrics(step)
        if self._delays.count:
            values["delay/mean"] = self._delays.total / self._delays.count
            values["delay/max"] = float(self._delays.largest)
            self._delays = _Delays()
        if step.time > 0:
            worker_time = server.cluster.num_workers * step.time
            values["utilization"] = self._used_time / worker_time
            values["busy"] = self._busy_time / worker_time
        return values

    @override
    def on_validation_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if trainer.state.fn == TrainerFn.FITTING and not trainer.sanity_checking:
            pl_module.log("logical_time", _exact(simulated_strategy(trainer, self).logical_time), batch_size=1)

    def _count(self, step: Step, server: ParameterServer) -> None:
        self._counted = step.index + 1
        self._used_time += server.method.used_time(step, server.cluster)
        self._delays.add(step.delays)

    @override
    def state_dict(self) -> dict[str, Any]:
        return {"counted": self._counted, "used_time": self._used_time, "delays": asdict(self._delays)}

    @override
    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self._counted = state_dict["counted"]
        self._used_time = state_dict["used_time"]
        self._delays = _Delays(**state_dict["delays"])


@dataclass
class _Delays:
    """Delays of the jobs used since they were logged last."""

    count: int = 0
    total: int = 0
    largest: int = 0

    def add(self, delays: Sequence[int]) -> None:
        if delays:
            self.count += len(delays)
            self.total += sum(delays)
            self.largest = max(self.largest, *delays)


def _server(strategy: ScheduledStrategy) -> ParameterServer | None:
    return strategy.server if isinstance(strategy, ParameterServerStrategy) else None


def _exact(value: float) -> torch.Tensor:
    """A value that is logged in double precision: times of a long run differ in late digits."""
    return torch.tensor(value, dtype=torch.float64)
