"""Asynchronous and synchronous server methods for any LightningModule."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Any, cast

import torch
from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.cli import LRSchedulerCallable, OptimizerCallable
from lightning.pytorch.utilities.types import STEP_OUTPUT
from torch import Tensor, nn
from torch.optim import Optimizer
from typing_extensions import override

from lightning_async._compat import Closure, StepValues, current_batch, set_no_loss, set_step_loss
from lightning_async.data import Partition
from lightning_async.methods import Direction, Gradient, Method
from lightning_async.methods.apply import scaling, set_gradients
from lightning_async.methods.clipping import scale
from lightning_async.methods.nonfinite import OnNonFinite
from lightning_async.methods.server import ParameterServer
from lightning_async.simulation import Job, SimulatedCluster, Step
from lightning_async.strategies.checks import check_optimizer, check_parameters, check_trainer
from lightning_async.strategies.optimizer_choice import OptimizerChoice, SchedulerInterval
from lightning_async.strategies.scheduled import ScheduledStrategy
from lightning_async.strategies.simulated import trainable


class ParameterServerStrategy(ScheduledStrategy):
    """Trains a module with a server method on simulated workers, in logical time.

    One Lightning batch is one server update: `global_step`, schedulers, `log_every_n_steps` and checkpoints count
    updates. A step that uses several gradients takes several mini-batches, a list, from the loader at once. Gradients
    that the method would discard are never computed, nor are their mini-batches drawn. Between two steps the module's
    parameters are the newest iterate; only parameters are ever stale, buffers belong to the server.

    A checkpoint holds, under one key, what is needed to continue bit for bit; a plain Trainer can load it as well.

    Args:
        method: the algorithm, such as `ClippedASGD(clip=1.0)`.
        cluster: the simulated workers.
        optimizer: replaces the module's own optimizer.
        partition: how the training data are split over the workers; None if all draw from one stream.
        seed: seed of the order of the data and of the randomness inside jobs, >= 0. Worker times have the cluster's.
        on_nonfinite: a gradient that is NaN or infinite, or a `training_step` that returns None, is left out of the
            step ("discard", with a warning and a count), or stops the run ("raise"). What its forward pass has done to
            buffers, such as BatchNorm's statistics, stays.
        lr_scheduler: a scheduler for `optimizer`.
        lr_scheduler_interval: whether that scheduler is stepped after every "step" or after every "epoch".

    Raises:
        TypeError: if an argument is of the wrong kind.
        ValueError: if an argument has a value that is not allowed.

    Example:
        >>> from lightning.pytorch import Trainer
        >>> from lightning_async import ParameterServerStrategy, SimulatedCluster
        >>> from lightning_async.methods import ClippedASGD
        >>> from lightning_async.simulation import TwoSpeedTimes
        >>> cluster = SimulatedCluster(TwoSpeedTimes(num_workers=16, slowdown=4.0))
        >>> strategy = ParameterServerStrategy(ClippedASGD(clip=1.0), cluster, seed=0)
        >>> trainer = Trainer(strategy=strategy, max_steps=5_000, max_epochs=-1, accelerator="cpu", logger=False)
    """

    method: Method
    _state_key = "server"

    def __init__(
        self,
        method: Method,
        cluster: SimulatedCluster,
        optimizer: OptimizerCallable | None = None,
        partition: Partition | None = None,
        seed: int = 0,
        on_nonfinite: OnNonFinite = "discard",
        *,
        lr_scheduler: LRSchedulerCallable | None = None,
        lr_scheduler_interval: SchedulerInterval = "epoch",
    ) -> None:
        choice = OptimizerChoice(optimizer, lr_scheduler, lr_scheduler_interval)
        super().__init__(method, cluster, choice, partition, seed, on_nonfinite)
        if not isinstance(method, Method):
            raise TypeError(
                f"method must be a server method such as ASGD() or ClippedASGD(clip=1.0), got {method!r}; methods that "
                f"train replicas belong to LocalSGDStrategy"
            )
        self._fingerprint()  # what does not tell its arguments is refused before there is work to lose
        self.server: ParameterServer | None = None
        """The iterate, its past versions and the schedule; None before a fit."""
        self._position = 0

    @property
    @override
    def _engine(self) -> ParameterServer | None:
        return self.server

    @override
    def _num_shards(self) -> int:
        return self.method.num_shards(self.cluster.num_workers)

    @override
    def _batches_per_step(self) -> int | None:
        jobs = super()._batches_per_step()
        return None if jobs is None else jobs * self.method.local_steps

    @override
    def _new_schedule(self) -> Iterator[Step]:
        """The schedule as the data see it: a job is listed once for each of its mini-batches."""
        local_steps = range(self.method.local_steps)
        schedule = super()._new_schedule()
        if len(local_steps) == 1:
            return schedule
        return (step._replace(jobs=tuple(job for job in step.jobs for _ in local_steps)) for step in schedule)

    @override
    def _check_trainer(self, trainer: Trainer) -> None:
        check_trainer(trainer, self._module, self.method)

    @override
    def _trained(self) -> list[Tensor]:
        optimizer = self.optimizers[0]
        check_optimizer(optimizer, self.method, self._scaler)
        return trainable(optimizer)

    @override
    def _start_engine(self) -> None:
        self.server = ParameterServer(
            self.method,
            self.cluster,
            self._trained(),
            sharded=self.partition is not None,
            on_nonfinite=self.on_nonfinite,
        )

    @override
    def optimizer_step(
        self,
        optimizer: Optimizer,
        closure: Callable[[], Any],
        model: LightningModule | nn.Module | None = None,
        **kwargs: Any,
    ) -> Any:
        """Compute the gradients of one server step, each at its own iterate, and step along the method's direction."""
        closure = self._lightning_closure(closure)
        server = self._fitting
        check_parameters(optimizer, len(server.parameters))
        step = server.next_step()
        left_out = server.nonfinite
        evaluation = _Evaluation(self, closure, server.parameters)
        direction = server.direction(evaluation.gradient)
        if not step.jobs:
            set_no_loss(closure)
        evaluation.publish()
        server.before_update()
        result = None
        if direction is not None:
            set_gradients(server.parameters, evaluation.scaled(direction), optimizer)
            with scaling(optimizer, server.method, step) or nullcontext():
                result = super().optimizer_step(optimizer, evaluation.loss, model, **kwargs)
        elif evaluation.overflowed is not None:
            # The scaler has to see the overflow to lower its scale; it makes no step.
            set_gradients(server.parameters, evaluation.overflowed, optimizer)
            result = super().optimizer_step(optimizer, evaluation.loss, model, **kwargs)
        server.after_update()
        self._made(step, nonfinite=server.nonfinite > left_out)
        return result

    @override
    def training_step(self, *args: Any, **kwargs: Any) -> STEP_OUTPUT:
        if self._one_batch:
            return super().training_step(*args, **kwargs)
        batches, *rest = args
        batch = batches[self._position]
        with current_batch(self._module.trainer, batch):
            return super().training_step(batch, *rest, **kwargs)

    @property
    def _fitting(self) -> ParameterServer:
        if self.server is None:
            raise RuntimeError("the strategy is not fitting a module yet")
        return self.server


class _Evaluation:
    """The gradients of the jobs of one step, and what Lightning wants to know of them."""

    def __init__(self, strategy: ParameterServerStrategy, closure: Closure, parameters: list[Tensor]) -> None:
        self._strategy = strategy
        self._closure = closure
        self._parameters = parameters
        self._values = None if strategy._one_batch else StepValues(strategy._module.trainer)
        self._losses: list[Tensor] = []
        self.overflowed: Gradient | None = None
        """Gradients in which the loss scale of fp16 has overflowed."""

    def gradient(self, job: Job, position: int) -> Gradient | None:
        """Run forward and backward of one job; None if `training_step` returned None."""
        strategy = self._strategy
        strategy._position = position
        loss = strategy._randomness.run(job, self._closure)
        if self._values is not None:
            self._values.collect()
        if loss is None:
            return None
        self._losses.append(loss)
        gradient: Gradient = [p.grad for p in self._parameters]
        for p in self._parameters:
            p.grad = None  # the tensors belong to the method now
        if strategy._scaler is not None:
            gradient = scale(gradient, 1.0 / strategy._scaler.get_scale(), in_place=True)
            self.overflowed = gradient
        return gradient

    def publish(self) -> None:
        """Let loggers and `on_train_batch_end` see means over the jobs of the step."""
        if self._values is not None:
            self._values.publish()
            set_step_loss(self._closure, torch.stack(self._losses).mean() if self._losses else None)

    def loss(self) -> Tensor | None:
        """What the precision plugin calls instead of Lightning's closure, which has run already."""
        return self._losses[-1] if self._losses else None

    def scaled(self, direction: Direction) -> Direction:
        """The direction under the loss scale, from which the precision plugin will free it."""
        scaler = self._strategy._scaler
        return direction if scaler is None else scale(cast("Gradient", direction), scaler.get_scale(), in_place=True)
