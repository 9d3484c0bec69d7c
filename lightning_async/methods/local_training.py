"""Local training of replicas: the schedule, the replicas, and their merges. Shared by every way to drive it."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import Any

from torch import Tensor, nn
from torch.optim import Optimizer

from lightning_async.methods.gradient_norm import finite_check_for
from lightning_async.methods.merging import working_dtype
from lightning_async.methods.message import Message
from lightning_async.methods.nonfinite import NonFiniteGradientError, OnNonFinite, checked_on_nonfinite
from lightning_async.methods.replica_method import ReplicaMethod
from lightning_async.methods.replicas import Replicas
from lightning_async.methods.rounds import Round
from lightning_async.simulation import SimulatedCluster, Step


class LocalTraining:
    """Replicas of a model, one per worker, their schedule and what they exchange.

    One step goes: `next_step`, `enter`, gradient and optimizer's step by the caller, `after_step`. The merge of a round
    belongs to its last local step. Nothing is lost if the caller stops in between: until `after_step`, this is still at
    the same step.

    Args:
        method: the algorithm.
        cluster: the workers; a fresh run of it is made.
        parameters: trainable parameters; where they stand is where all replicas begin.
        optimizer: makes the local steps.
        module: owner of the buffers, if there are any.
        sharded: whether every worker has data of its own.
        on_nonfinite: what becomes of a gradient that is not finite: "discard" makes no step with it, "raise" stops.
        owned: whether the memory of gradients belongs to this training, and not to whoever computes them.
    """

    def __init__(
        self,
        method: ReplicaMethod,
        cluster: SimulatedCluster,
        parameters: Sequence[Tensor],
        optimizer: Optimizer,
        *,
        module: nn.Module | None = None,
        sharded: bool = False,
        on_nonfinite: OnNonFinite = "discard",
        owned: bool = True,
    ) -> None:
        self.method = method = copy(method)  # its state is that of one run
        self.cluster = cluster.start(sharded=sharded)
        method.check_cluster(self.cluster)
        self.on_nonfinite = checked_on_nonfinite(on_nonfinite)
        self.replicas = Replicas(parameters, optimizer, cluster.num_workers, module)
        self.parameters = self.replicas.parameters
        self.is_finite = finite_check_for(self.parameters, owned=owned)
        """Whether no entry of a gradient is NaN or infinite."""
        method.bind(self.replicas.flat.num_coordinates, self.replicas.flat.rows.element_size())
        row = self.replicas.flat.rows[0]
        method.begin(row.to(working_dtype(row.dtype), copy=True))
        self.nonfinite = 0
        """Gradients that no step was made with, because they were not finite or missing."""
        self._rewind()

    def _rewind(self) -> None:
        """Go to the beginning of the schedule."""
        self.completed = 0
        """Number of local steps that have been made, over all replicas."""
        self.logical_time = 0.0
        """Logical time of the last step that has been made."""
        self.rounds = 0
        """Number of rounds that have been completed."""
        self.num_bytes = 0.0
        """Bytes sent by all workers together, in completed rounds."""
        self.round_bytes = 0.0
        """Bytes sent by all workers together in the last completed round."""
        self.computing = [0.0] * self.cluster.num_workers
        """Time that each worker has spent in local steps, in completed rounds."""
        self.hidden = [0.0] * self.cluster.num_workers
        """The part of it during which a message travelled: communication that cost no time."""
        self.idle = [0.0] * self.cluster.num_workers
        """Time that each worker has spent waiting, in completed rounds."""
        self._memory: Tensor | None = None
        self._schedule = self.method.rounds(self.cluster)
        self._begin(next(self._schedule))

    def _begin(self, round: Round) -> None:
        self.round = round
        """The round that the next step belongs to."""
        if round.coordinates is None:
            raise RuntimeError(
                f"{type(self.method).__name__} does not know the size of the model, which its bind was told: end "
                f"{type(self.method).__name__}.bind with super().bind(num_coordinates, bytes_per_coordinate)"
            )
        self._position = 0
        self._message: Message | None = None
        self._snapshot_after = sum(round.before) if round.coordinates and any(round.during) else None

    def next_step(self) -> Step:
        """The step that comes next. It stays the same until `after_step`."""
        return self.round.steps[self._position]

    def enter(self) -> None:
        """Let parameters, buffers and optimizer hold the replica whose step comes next."""
        self.replicas.enter(self.next_step().jobs[0].worker)

    def refuse_gradient(self) -> None:
        """Count a gradient that is not finite or missing.

        Raises:
            NonFiniteGradientError: if `on_nonfinite` is "raise".
        """
        if self.on_nonfinite == "raise":
            raise NonFiniteGradientError(
                f"the gradient of {self.next_step().jobs[0]} in local step {self.completed} is missing or not finite; "
                f'lower the step size, or use on_nonfinite="discard"'
            )
        self.nonfinite += 1

    def after_step(self) -> bool:
        """The local step has been made; exchange what is due.

        Returns:
            Whether the step has closed a round.

        Raises:
            RuntimeError: if it has, and replicas were moved to other memory, so that they are not seen.
        """
        self.replicas.keep()
        self._count()
        round = self.round
        if self._position == self._snapshot_after:
            self._message = self._new_message()
            self._message.snapshot()
        if self._position < len(round.steps):
            return False
        self.replicas.flat.check_in_place()
        if round.coordinates:
            message = self._message or self._new_message()
            message.merge(self.method)
            self._memory = message.memory
            self.replicas.buffers.merge()
        self._close()
        return True

    def _new_message(self) -> Message:
        flat, round = self.replicas.flat, self.round
        assert round.coordinates is not None
        indices = self.method.checked_indices(round.index, flat.num_coordinates, self.cluster.seed, round.coordinates)
        return Message(flat, indices, self._memory)

    def _count(self) -> None:
        step = self.next_step()
        self._position += 1
        self.completed += 1
        self.logical_time = step.time

    def _close(self) -> None:
        round = self.round
        self.rounds += 1
        self.round_bytes = (round.num_bytes or 0.0) * self.cluster.num_workers
        self.num_bytes += self.round_bytes
        for total, times in ((self.computing, round.computing), (self.hidden, round.hidden), (self.idle, round.idle)):
            for worker, time in enumerate(times):
                total[worker] += time
        self._begin(next(self._schedule))

    def metrics(self) -> dict[str, float]:
        """What was communicated and how workers spent their time, over the completed rounds."""
        n = self.cluster.num_workers
        values = {
            "rounds": float(self.rounds),
            "bytes/round": self.round_bytes,
            "bytes/total": self.num_bytes,
            "bits_sent": 8 * self.num_bytes,
            "nonfinite": float(self.nonfinite),
            "disagreement": self.replicas.flat.disagreement(),
        }
        if self.rounds:
            values["time/hidden"] = sum(self.hidden) / n
            values["time/idle"] = sum(self.idle) / n
            values["time/idle_max"] = max(self.idle)
            values |= {f"time/idle/{worker}": time for worker, time in enumerate(self.idle)}
            values["utilization"] = sum(self.computing) / (n * self.round.start)
        return values

    def ends_unmerged(self, steps: float) -> str | None:
        """What to say of a run of so many local steps, if it ends before replicas are merged for the first time."""
        if self.completed or not 0 < steps < len(self.round.steps) or self.method.silent:
            return None
        return (
            f"ends before replicas are merged for the first time, after {steps} local steps: the first round has "
            f"{len(self.round.steps)}, and ends at logical time {self.round.end:g} ({self.method!r}, "
            f"{self.cluster.link!r})."
        )

    def check_budget(self, max_time: float) -> None:
        """Refuse a budget of logical time that ends before the first merge.

        Raises:
            ValueError: with how long the first round takes, and why.
        """
        self.method.check_budget(self.cluster, max_time)

    def state_dict(self) -> dict[str, Any]:
        """What cannot be replayed: the number of steps made, the replicas, a message that is travelling."""
        return {
            "completed": self.completed,
            "nonfinite": self.nonfinite,
            "replicas": self.replicas.state_dict(),
            "message": {} if self._message is None else self._message.state_dict(),
            "method": self.method.state_dict(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue where `state_dict` was taken: the schedule is replayed, without gradients."""
        self._rewind()
        while self.completed < state["completed"]:
            self._count()
            if self._position == len(self.round.steps):
                self._close()
        self.nonfinite = state["nonfinite"]
        self.replicas.load_state_dict(state["replicas"])
        self.method.load_state_dict(state["method"])
        if state["message"]:
            self._message = self._new_message()
            self._message.load_state_dict(state["message"])
