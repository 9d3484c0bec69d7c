"""Local training of replicas, with averages now and then, for any LightningModule."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from lightning.fabric.utilities.exceptions import MisconfigurationException
from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.cli import LRSchedulerCallable, OptimizerCallable
from lightning_utilities.core.rank_zero import rank_zero_warn
from torch import Tensor, nn
from torch.optim import Optimizer
from typing_extensions import override

from lightning_async._compat import Closure
from lightning_async.data import Partition
from lightning_async.methods.buffer_replicas import same
from lightning_async.methods.local_training import LocalTraining
from lightning_async.methods.nonfinite import OnNonFinite
from lightning_async.methods.replica_method import ReplicaMethod
from lightning_async.methods.replica_method_checks import check_resumable
from lightning_async.simulation import SimulatedCluster
from lightning_async.strategies.average_before_callbacks import AverageBeforeCallbacks
from lightning_async.strategies.optimizer_choice import OptimizerChoice, SchedulerInterval
from lightning_async.strategies.replica_checks import (
    check_registered,
    check_replica_parameters,
    check_replica_trainer,
    check_still_frozen,
)
from lightning_async.strategies.scheduled import ScheduledStrategy


class LocalSGDStrategy(ScheduledStrategy):
    """Trains one replica of a module per simulated worker, each at its own speed, with averages as the method says.

    One Lightning batch is one local step of one replica, in order of logical time: `global_step`, schedulers,
    `log_every_n_steps` and checkpoints count local steps over all replicas. The merge of a round belongs to its last
    step, which is made when the message has arrived, though its worker may have computed it before. Parameters, buffers
    and optimizer state of the replica are swapped in by pointer. Hyper-parameters of the optimizer, and so schedulers,
    are shared.

    What is validated and saved, and what the module holds after a fit, is the average model: the mean of parameters and
    floating-point buffers, the maximum of counters. Otherwise the module holds one replica, from `on_train_batch_start`
    on that whose step comes, until the next batch. Entries of parameters, and buffers, that a hook writes before the
    first batch, or in a validation and does not take back by its end, all replicas get. A checkpoint
    also holds, under one key, all replicas and what is needed to continue bit for bit; a plain Trainer can load it,
    with the average model.

    Args:
        method: the algorithm, such as `LOSCAR(sparsity=0.1, compute_window=8.0)`.
        cluster: the simulated workers. A local step takes the worker's computing time, a message the link's.
        optimizer: replaces the module's own optimizer.
        partition: how the training data are split over the workers; None if all draw from one stream.
        seed: seed of the order of the data and of the randomness inside local steps, >= 0. Worker times and masks have
            the cluster's.
        on_nonfinite: when a gradient is NaN or infinite, or `training_step` returns None, the replica's parameters
            stay where they are ("discard", with a warning and a count), or the run stops ("raise"). What the forward
            pass has done to buffers, such as BatchNorm's statistics, stays.
        lr_scheduler: a scheduler for `optimizer`.
        lr_scheduler_interval: whether that scheduler is stepped after every "step" or after every "epoch".

    Raises:
        TypeError: if an argument is of the wrong kind, or the method has a state that it does not save.
        ValueError: if an argument has a value that is not allowed, or the method's compute window is shorter than the
            fastest local step.

    Example:
        >>> from lightning.pytorch import Trainer
        >>> from lightning_async import Link, SimulatedCluster
        >>> from lightning_async.methods import LOSCAR
        >>> from lightning_async.simulation import TwoSpeedTimes
        >>> from lightning_async.strategies import LocalSGDStrategy
        >>> cluster = SimulatedCluster(TwoSpeedTimes(num_workers=16, slowdown=4.0), Link(latency=4.0))
        >>> strategy = LocalSGDStrategy(LOSCAR(sparsity=0.1, compute_window=8.0), cluster, seed=0)
        >>> trainer = Trainer(strategy=strategy, max_steps=5_000, max_epochs=-1, accelerator="cpu", logger=False)
    """

    method: ReplicaMethod
    _state_key = "local"

    def __init__(
        self,
        method: ReplicaMethod,
        cluster: SimulatedCluster,
        optimizer: OptimizerCallable | None = None,
        partition: Partition | None = None,
        seed: int = 0,
        *,
        on_nonfinite: OnNonFinite = "discard",
        lr_scheduler: LRSchedulerCallable | None = None,
        lr_scheduler_interval: SchedulerInterval = "epoch",
    ) -> None:
        choice = OptimizerChoice(optimizer, lr_scheduler, lr_scheduler_interval)
        super().__init__(method, cluster, choice, partition, seed, on_nonfinite)
        if not isinstance(method, ReplicaMethod):
            raise TypeError(
                f"method must train replicas, such as LOSCAR(sparsity=0.1, compute_window=8.0), got {method!r}; server "
                f"methods belong to ParameterServerStrategy"
            )
        method.check_cluster(cluster)
        check_resumable(method)
        self._fingerprint()  # what does not tell its arguments is refused before there is work to lose
        self.local: LocalTraining | None = None
        """The replicas and their schedule; None before a fit."""
        self._validated_over: int | None = None  # the replica that the average took the place of

    @property
    def replicas(self) -> Tensor:
        """All replicas, `(n, d)`, to be read only.

        Columns are trainable parameters in the module's order, each in the order of its memory: that of
        `parameter.flatten()` if it is contiguous.

        Raises:
            RuntimeError: before a fit.
        """
        return self._fitting.replicas.flat.compact()

    def metrics(self) -> dict[str, float]:
        """What was communicated, how workers spent their time, and how far replicas are apart; for loggers."""
        return self._fitting.metrics()

    @override
    def check_budget(self, max_time: float) -> None:
        """Refuse a budget of logical time that ends before replicas are merged for the first time.

        Raises:
            MisconfigurationException: with how long the first round takes, and why.
        """
        try:
            self._fitting.check_budget(max_time)
        except ValueError as error:
            raise MisconfigurationException(str(error)) from None

    @property
    @override
    def _engine(self) -> LocalTraining | None:
        return self.local

    @override
    def _check_trainer(self, trainer: Trainer) -> None:
        check_replica_trainer(trainer, self._module, self.method)

    @override
    def _trained(self) -> list[Tensor]:
        check_registered(self.optimizers[0], self._module)
        return [p for p in self._module.parameters() if p.requires_grad]

    @override
    def _start_engine(self) -> None:
        self.local = LocalTraining(
            self.method,
            self.cluster,
            self._trained(),
            self.optimizers[0],
            module=self._module,
            sharded=self.partition is not None,
            on_nonfinite=self.on_nonfinite,
        )

    @override
    def _continues(self, engine: LocalTraining) -> bool:  # type: ignore[override]  # there is no other
        average = engine.replicas.flat.split(engine.replicas.flat.mean())
        if not super()._continues(engine) or not all(map(same, average, engine.parameters)):
            rank_zero_warn("the weights were changed since the last fit: all replicas begin anew, at logical time 0")
            return False
        if [p.stride() for p in engine.parameters] != engine.replicas.flat.strides:
            rank_zero_warn(
                "the parameters lie in memory in another order than in the last fit, perhaps after a "
                "module.to(memory_format=...): the run continues in the order that it began with. Make a new strategy "
                "for all replicas to begin anew in the new order."
            )
        engine.replicas.attach(self.optimizers[0])
        return True

    @override
    def on_train_start(self) -> None:
        super().on_train_start()
        trainer, local = self._module.trainer, self._fitting
        # Infinite or negative if the length of the data is not known, and nothing else limits the fit.
        steps = trainer.estimated_stepping_batches - trainer.global_step
        if (unmerged := local.ends_unmerged(steps)) is not None:
            by_steps = trainer.estimated_stepping_batches == trainer.max_steps
            limit = f"max_steps={trainer.max_steps}" if by_steps else f"max_epochs={trainer.max_epochs}"
            rank_zero_warn(f"Trainer({limit}) {unmerged}")

    @override
    def batch_to_device(self, batch: Any, device: torch.device | None = None, dataloader_idx: int = 0) -> Any:
        """Let the module hold the replica whose turn it is, before any hook sees the batch, and move the batch."""
        if self.local is not None and self._module.trainer.training:
            self.local.enter()
        return super().batch_to_device(batch, device, dataloader_idx)

    @override
    def optimizer_step(
        self,
        optimizer: Optimizer,
        closure: Callable[[], Any],
        model: LightningModule | nn.Module | None = None,
        **kwargs: Any,
    ) -> Any:
        """Make one local step with the replica whose turn it is, and exchange what is due after it."""
        closure = self._lightning_closure(closure)
        local = self._fitting
        check_replica_parameters(optimizer, local)
        step = local.next_step()
        (job,) = step.jobs
        refused = local.nonfinite
        if local.replicas.in_place != job.worker:  # with a loop that does not move batches
            local.enter()
        for p in local.parameters:
            p.grad = None  # of another replica
        make_step = super().optimizer_step
        result = self._randomness.run(job, lambda: make_step(optimizer, self._finite(closure), model, **kwargs))
        local.after_step()
        self._made(step, nonfinite=local.nonfinite > refused)
        return result

    def _finite(self, closure: Closure) -> Callable[[], Tensor | None]:
        """The closure, after which there are no gradients if they are not finite, so that nothing moves."""
        local = self._fitting

        def run() -> Tensor | None:
            loss = closure()
            check_still_frozen(local.replicas.shared, self._module)
            # With a scaler, an overflow is the scaler's to see and to handle.
            if loss is None or (self._scaler is None and not local.is_finite([p.grad for p in local.parameters])):
                local.refuse_gradient()
                for p in local.parameters:
                    p.grad = None
            return loss

        return run

    @override
    def lightning_module_state_dict(self) -> dict[str, Any]:
        replica = self._enter_average()
        state = super().lightning_module_state_dict()
        self._enter_again(replica)
        return state

    @override
    def setup(self, trainer: Trainer) -> None:
        super().setup(trainer)
        self._validated_over = None
        callbacks: list[Callback] = trainer.callbacks  # type: ignore[attr-defined]
        callbacks.insert(0, AverageBeforeCallbacks())

    @override
    def on_validation_start(self) -> None:
        if self._validated_over is None:
            self._validated_over = self._enter_average()

    @override
    def on_validation_end(self) -> None:
        self._enter_again(self._validated_over)
        self._validated_over = None

    @override
    def on_train_end(self) -> None:
        self._enter_average()

    @override
    def teardown(self) -> None:
        callbacks: list[Callback] = self._module.trainer.callbacks  # type: ignore[attr-defined]
        callbacks[:] = [callback for callback in callbacks if not isinstance(callback, AverageBeforeCallbacks)]
        self._enter_average()
        super().teardown()

    def _enter_average(self) -> int | None:
        """Let the module hold the average model, if it holds a replica, and say which one that was."""
        replica = None if self.local is None else self.local.replicas.in_place
        if self.local is None or not isinstance(replica, int):
            return None
        self.local.replicas.enter_average()
        return replica

    def _enter_again(self, replica: int | None) -> None:
        """Let the module hold the replica again that the average took the place of, if there was one."""
        if replica is not None:
            self._fitting.replicas.enter(replica)

    @property
    def _fitting(self) -> LocalTraining:
        if self.local is None:
            raise RuntimeError("the strategy is not fitting a module yet")
        return self.local
