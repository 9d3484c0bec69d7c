"""What the strategies have in common that make one step of a schedule per Lightning batch, and can be resumed."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar, Protocol

import torch
from lightning.fabric.utilities.exceptions import MisconfigurationException
from lightning.pytorch import Trainer
from lightning.pytorch.trainer.states import TrainerFn
from lightning_utilities.core.rank_zero import rank_zero_warn
from torch import Tensor
from typing_extensions import override

from lightning_async._compat import Closure
from lightning_async.data import Partition
from lightning_async.methods import Method
from lightning_async.methods.nonfinite import OnNonFinite, checked_on_nonfinite
from lightning_async.methods.replica_method import ReplicaMethod
from lightning_async.randomness import JobRandomness
from lightning_async.simulation import SimulatedCluster, Step
from lightning_async.strategies.optimizer_choice import OptimizerChoice
from lightning_async.strategies.resuming import (
    check_saved_run,
    check_saved_state,
    ignore_not_resumable,
    load_engine,
    warn_if_changed,
)
from lightning_async.strategies.simulated import SimulatedStrategy
from lightning_async.strategies.unfinished import Unfinished, train_every_batch

CHECKPOINT_KEY = "lightning_async"


class Engine(Protocol):
    """What a strategy drives: a schedule, and all that it moves."""

    @property
    def method(self) -> Method | ReplicaMethod:
        """The algorithm, which knows the size of the model."""

    parameters: list[Tensor]
    completed: int
    logical_time: float
    nonfinite: int

    def next_step(self) -> Step:
        """The step that comes next."""

    def state_dict(self) -> dict[str, Any]:
        """What cannot be replayed."""

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue where `state_dict` was taken."""


class ScheduledStrategy(SimulatedStrategy):
    """Makes one step of a schedule per Lightning batch; its checkpoints hold what is needed to continue bit for bit.

    Args:
        method: the algorithm.
        cluster: the simulated workers.
        optimizer: what replaces the module's own optimizer and schedulers, if anything does.
        partition: how the training data are split over the workers; None if all draw from one stream.
        seed: seed of the order of the data and of the randomness inside jobs, >= 0.
        on_nonfinite: what becomes of a gradient that is NaN or infinite: "discard" leaves it out, "raise" stops.

    Raises:
        TypeError: if an argument is of the wrong kind.
        ValueError: if an argument has a value that is not allowed.
    """

    _state_key: ClassVar[str]
    """Under which name the engine's state is in a checkpoint."""

    def __init__(
        self,
        method: Method | ReplicaMethod,
        cluster: SimulatedCluster,
        optimizer: OptimizerChoice,
        partition: Partition | None = None,
        seed: int = 0,
        on_nonfinite: OnNonFinite = "discard",
    ) -> None:
        super().__init__(method, cluster, optimizer, partition, seed)
        self.on_nonfinite = checked_on_nonfinite(on_nonfinite)
        self.last_step: Step | None = None
        """The last step that was made."""
        self._started = False
        self._started_at = 0
        self._warned = False
        self._size_before: Mapping[str, int | None] = {}
        self._heed_again: Callable[[], None] | None = None
        self._randomness: JobRandomness
        self._random_states: dict[str, Any] | None = None  # to go on with
        self._unfinished: Unfinished | None = None  # to begin with
        self._scaler: torch.amp.GradScaler | None = None

    @property
    @abstractmethod
    def _engine(self) -> Engine | None:
        """What is driven; None before a fit."""

    @abstractmethod
    def _check_trainer(self, trainer: Trainer) -> None:
        """Refuse what cannot be combined, before anything is built."""

    @abstractmethod
    def _trained(self) -> list[Tensor]:
        """The parameters that the engine trains; refuse what cannot be combined with the optimizer."""

    @abstractmethod
    def _start_engine(self) -> None:
        """Make an engine at step 0 and logical time 0."""

    def _continues(self, engine: Engine) -> bool:
        """Whether a second fit can go on with the engine of the first."""
        return list(map(id, engine.parameters)) == list(map(id, self._trained()))

    @override
    def _new_schedule(self) -> Iterator[Step]:
        method = self.method if self._engine is None else self._engine.method
        return method.steps(self.cluster.start(sharded=self.partition is not None))

    @property
    def logical_time(self) -> float:
        """Logical time of the last step that was made: the age of the model."""
        return self._engine.logical_time if self._engine is not None else 0.0

    @property
    def next_time(self) -> float:
        """Logical time of the step that comes next."""
        if self._engine is None:
            raise RuntimeError("the strategy is not fitting a module yet")
        return self._engine.next_step().time

    @property
    def begins_after_batch(self) -> bool:
        """In `on_train_start`: whether the run is resumed, and begins with the validation of a batch if one is due."""
        return self._unfinished is not None and self._unfinished.after_batch

    def check_budget(self, max_time: float) -> None:
        """Refuse a budget of logical time that is too short for the method to do anything; by default none is.

        Raises:
            MisconfigurationException: with what is needed.
        """

    @override
    def setup(self, trainer: Trainer) -> None:
        if trainer.state.fn != TrainerFn.FITTING:
            super().setup(trainer)
            return
        self._check_trainer(trainer)
        train_every_batch(trainer)
        self._size_before, self._random_states, self._unfinished = {}, None, None
        # A second fit of the same module continues the first, as the Trainer's own counters do.
        engine = self._engine
        goes_on = engine is not None and self._started_at + engine.completed == trainer.global_step > 0
        if not goes_on:
            if engine is not None and trainer.global_step > 0:
                rank_zero_warn(
                    f"{type(self).__name__} has been in another Trainer since this one made its {trainer.global_step} "
                    f"steps, and does not remember them: the schedule starts at step 0 and logical time 0. Give every "
                    f"Trainer a strategy of its own, or continue from a checkpoint with ckpt_path."
                )
            self._start_data()
        super().setup(trainer)
        self._randomness = JobRandomness(self.seed, self.root_device)
        scaler = getattr(self.precision_plugin, "scaler", None)
        self._scaler = scaler if scaler is not None and scaler.is_enabled() else None
        if engine is not None and goes_on and not self._continues(engine):
            goes_on = False
            self._start_data()
        if not goes_on:
            self._start(trainer.global_step)
        self._started = False

    def _start(self, global_step: int) -> None:
        """Be at step 0 and logical time 0 when the Trainer is at `global_step`."""
        self.last_step = None
        self._started_at = global_step
        self._start_engine()

    @override
    def on_train_start(self) -> None:
        super().on_train_start()
        loader = self._step_loader
        if loader is None:
            return
        if self._random_states is not None:
            self._randomness.load_state_dict(self._random_states)
            self._random_states = None
        warn_if_changed(self._size_before, loader.size)
        self._size_before = {}
        if loader.keeps_position:
            self._heed_again = ignore_not_resumable()
        if self._unfinished is not None:
            if self._unfinished.ends_epoch(self._module.trainer):
                loader.seek(loader.completed, loader.positions)  # this epoch reads nothing any more
            self._unfinished.resume(self._module.trainer)
            self._unfinished = None

    @override
    def teardown(self) -> None:
        self._heed_warnings()
        super().teardown()

    def _heed_warnings(self) -> None:
        if self._heed_again is not None:
            self._heed_again()
            self._heed_again = None

    @override
    def on_train_batch_start(self, batch: Any, batch_idx: int) -> None:
        self._heed_warnings()
        if self._started and batch_idx > 0:
            raise MisconfigurationException(
                f"{type(self._module).__name__} made no optimizer step in the last batch (its optimizer_step did not "
                f"call optimizer.step(closure=closure)), but one batch is one step of the schedule. Step in every "
                f"batch; to average several gradients use RennalaSGD(batch=...)."
            )
        self._started = True

    def _lightning_closure(self, closure: Callable[[], Any]) -> Closure:
        """The closure of a batch: forward and backward, to be run where the schedule says."""
        if not isinstance(closure, Closure):
            raise MisconfigurationException(
                f"{type(self._module).__name__}.optimizer_step must pass its closure on: "
                f"optimizer.step(closure=optimizer_closure). The gradients are computed inside."
            )
        return closure

    def _made(self, step: Step, nonfinite: bool) -> None:
        """A step of the schedule has been made, with or without a gradient that was not finite."""
        if nonfinite and not self._warned:
            self._warned = True
            rank_zero_warn(
                f"a gradient of step {step.index} (logical time {step.time}) was not finite, or training_step returned "
                f"None: it is left out. What its forward pass did to buffers, such as the statistics of BatchNorm, "
                f"stays. Such gradients are counted in strategy.{self._state_key}.nonfinite; this is said only once."
            )
        self._started = False
        self.last_step = step
        if self._step_loader is not None:
            self._step_loader.commit()

    @override
    def save_checkpoint(self, checkpoint: dict[str, Any], filepath: Any, storage_options: Any | None = None) -> None:
        if self._engine is not None and "optimizer_states" in checkpoint:
            loader = self._step_loader
            unfinished = Unfinished.at(self._module.trainer)
            if self._unfinished is not None:
                unfinished = self._unfinished.then(unfinished)
            checkpoint[CHECKPOINT_KEY] = {
                "run": self._fingerprint(),
                "started_at": self._started_at,
                "size": loader.size if loader is not None else {},
                "random_states": self._randomness.state_dict(),
                "unfinished": unfinished.state_dict(),
                self._state_key: self._engine.state_dict(),
                "data": {shard: tuple(at) for shard, at in loader.positions.items()} if loader is not None else {},
            }
        super().save_checkpoint(checkpoint, filepath, storage_options)

    @override
    def load_optimizer_state_dict(self, checkpoint: Mapping[str, Any]) -> None:
        super().load_optimizer_state_dict(checkpoint)
        trainer = self._module.trainer
        state = checkpoint.get(CHECKPOINT_KEY)
        if state is None:
            self._start_data()
            self._start(checkpoint["global_step"])
            rank_zero_warn(
                f"the checkpoint was written without {type(self).__name__}: weights and optimizer are taken from it, "
                f"and the schedule starts at step 0 and logical time 0."
            )
            return
        if trainer.max_steps != -1 and trainer.max_epochs not in (-1, None):
            raise MisconfigurationException(
                f"Trainer(max_epochs={trainer.max_epochs}, max_steps={trainer.max_steps}): with two limits a resumed "
                f"run can end too early. Give one: max_epochs=-1 beside max_steps, or max_epochs alone."
            )
        check_saved_run(state, CHECKPOINT_KEY)
        self._check_fingerprint(state["run"])
        check_saved_state(state, CHECKPOINT_KEY, self._state_key, checkpoint["global_step"])
        completed = state[self._state_key]["completed"]
        self._start_data(completed, state["data"])
        self._start(checkpoint["global_step"] - completed)
        self._size_before = state.get("size", {})
        self._random_states = state.get("random_states")
        self._unfinished = Unfinished.load(state.get("unfinished"), trainer)
        if self._engine is not None:
            load_engine(self._engine.load_state_dict, state[self._state_key])
