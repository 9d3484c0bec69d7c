"""The parameter server: the iterate, its schedule, and the gradients of a step. Shared by every way to drive it."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import torch
from torch import Tensor

from lightning_async.methods.averaging import GradientSum
from lightning_async.methods.base import Direction, Gradient, Method
from lightning_async.methods.clipping import clipping_for
from lightning_async.methods.gradient_norm import finite_check_for
from lightning_async.methods.nonfinite import NonFiniteGradientError, OnNonFinite, checked_on_nonfinite
from lightning_async.methods.parameters import check_distinct, check_floating
from lightning_async.methods.versions import VersionedCluster, Versions
from lightning_async.simulation import Job, SimulatedCluster, Step
from lightning_async.simulation.waiting import PastHorizon, check_nobody_misses

ComputeGradient: TypeAlias = Callable[[Job, int], Gradient | None]


class ParameterServer:
    """Holder of x_k, of the iterates that workers still compute at, and of the schedule.

    One step goes: `next_step`, `direction` (computes the gradients of its jobs, each at its own iterate),
    `before_update`, the optimizer's step by the caller, `after_update`. Nothing is lost if the caller stops in between:
    until `after_update`, the server is still at this step.

    Args:
        method: the algorithm.
        cluster: the workers; a fresh run of it is made.
        parameters: trainable parameters in the optimizer's order. Between two steps they hold the newest iterate.
        sharded: whether every worker has data of its own.
        on_nonfinite: "discard" leaves a gradient that is not finite out of the direction; "raise" stops.
        owned: whether gradients belong to the server. If they do not, because whoever computes them may give the same
            memory again, those that are kept beside others of the step are copied.

    Raises:
        NoArrivalError: if the method waits for all workers, and one is bound to get a job that it never finishes.
        ValueError: if `on_nonfinite` is neither, or there is no parameter, or one is complex, an integer or listed
            twice.
    """

    def __init__(
        self,
        method: Method,
        cluster: SimulatedCluster,
        parameters: Sequence[Tensor],
        *,
        sharded: bool = False,
        on_nonfinite: OnNonFinite = "discard",
        owned: bool = True,
    ) -> None:
        if not parameters:
            raise ValueError("there is nothing to train: the list of parameters is empty")
        check_floating(parameters)
        check_distinct(parameters)
        if method.waits_for_all:
            check_nobody_misses(cluster.times, type(method).__name__)
        self.method = method
        self._works = type(method).work is not Method.work
        self.parameters = list(parameters)
        self._finite = finite_check_for(self.parameters, owned=owned)
        self._clip = None if method.clip is None else clipping_for(self.parameters, method.clip, owned=owned)
        self._owned = owned
        self.on_nonfinite = checked_on_nonfinite(on_nonfinite)
        self.versions = Versions(self.parameters)
        num_coordinates = sum(p.numel() for p in self.parameters)
        num_bytes = sum(p.numel() * p.element_size() for p in self.parameters)
        method.bind(num_coordinates, num_bytes / max(1, num_coordinates))
        method.reset()
        self._run = method._run = object()
        self._has_state = type(method).reset is not Method.reset
        self.cluster = cluster.start(
            method.message_bytes(cluster), sharded=sharded, gradients_per_job=method.local_steps
        )
        self._schedule = method.steps(VersionedCluster(self.cluster, self.versions))
        self._pending: Step | None = None
        self._late: Step | None = None
        self._horizon, self._cut_short = math.inf, False
        self.completed = 0
        """Number of steps that have been made: the index of the newest iterate."""
        self.logical_time = 0.0
        """Logical time of the last step that has been made."""
        self.discarded = 0
        """Jobs refused or stopped up to the last step that has been made."""
        self.nonfinite = 0
        """Gradients left out because they were not finite or missing."""
        self.arrived = 0
        """Gradients that workers have sent, used or not, up to the last step that has been made."""
        self._arrived_by_next = 0
        self._updating = False

    def next_step(self) -> Step:
        """The step that comes next. It stays the same until `after_update`; asking for it computes no gradient.

        If there is none by the horizon, a step without jobs that cannot be made, at the time of the first arrival after
        the horizon.
        """
        if self._pending is None:
            try:
                self._pending = next(self._schedule)
            except PastHorizon as signal:
                self._late, self._cut_short = Step(self.completed, signal.time, ()), True
                return self._late
            except StopIteration:
                if self._late is not None:
                    return self._late
                if not self._cut_short:
                    raise
                self._replay()
                return self.next_step()
            self._arrived_by_next = self.cluster.arrived  # later the cluster may be further ahead
        return self._pending

    @property
    def horizon(self) -> float:
        """Logical time after which no step is looked for, so that one that takes for ever can be seen to be late."""
        return self._horizon

    @horizon.setter
    def horizon(self, time: float) -> None:
        if time != self._horizon:
            self._horizon, self._late = time, None
            self.cluster.horizon = min(time, sys.float_info.max)

    def _replay(self) -> None:
        """Bring a schedule that ended at an earlier horizon back to where it was after the last step."""
        self.versions.restart()
        self.cluster = self.cluster.start(self.method.message_bytes(self.cluster))
        self._schedule, self._cut_short = self.method.steps(VersionedCluster(self.cluster, self.versions)), False
        for _ in range(self.completed):
            next(self._schedule)
        self.cluster.horizon = min(self._horizon, sys.float_info.max)

    def direction(self, compute: ComputeGradient) -> Direction | None:
        """What the optimizer is to be given in this step.

        Args:
            compute: is called with each job of the step and its position in it, in order, while the parameters hold the
                job's iterate, and returns its gradient, one tensor or None per parameter; None if there is none. Of
                a method with local steps, with each local step in place of each job: `number` counts those of the
                worker, the position those of the step, and the parameters hold what the worker has come to.

        Returns:
            The method's direction, or None if no gradient of the step can be used.

        Raises:
            NonFiniteGradientError: if a gradient is not finite and `on_nonfinite` is "raise".
            RuntimeError: if the method has a state, and it is that of a run which has begun since.
        """
        if self._has_state and self.method._run is not self._run:
            raise RuntimeError(
                f"this {type(self.method).__name__} object has begun another run since, and holds the state of that "
                f"one: make a {type(self.method).__name__} for each run"
            )
        step = self._pending or self.next_step()
        if len(step.jobs) == 1:
            gradient = self._gradient(step.jobs[0], 0, compute)
            return None if gradient is None else self.method.direction(step, [gradient])
        method = self.method
        sums: dict[int, GradientSum] = {}  # one over all, one for each worker, or one for each gradient
        used: list[Job] = []
        for position, job in enumerate(step.jobs):
            gradient = self._gradient(job, position, compute)
            if gradient is not None:
                key = 0 if method.averages else job.worker if method.sums_by_worker else position
                sums.setdefault(key, GradientSum(owned=self._owned)).add(gradient)
                used.append(job)
        if not used:
            return None
        if method.averages:
            return sums[0].mean()
        return method.direction(step._replace(jobs=tuple(used)), [total.sum for total in sums.values()])

    def _gradient(self, job: Job, position: int, compute: ComputeGradient) -> Gradient | None:
        """The gradient of a job of the step; None if it cannot be used."""
        if self._works:
            compute = self._work(compute)
        if job.version == self.completed:
            gradient = compute(job, position)
        else:
            newest = self.versions.enter(job.version)
            try:
                gradient = compute(job, position)
            finally:
                self.versions.leave(newest)
        if gradient is not None:
            if self._clip is None:
                if self._finite(gradient):
                    return gradient
            elif (clipped := self._clip(gradient)) is not None:
                return clipped
        if self.on_nonfinite == "raise":
            raise NonFiniteGradientError(
                f"the gradient of {job} in step {self.completed} is {'missing' if gradient is None else 'not finite'}; "
                f'lower the step size, or use on_nonfinite="discard"'
            )
        self.nonfinite += 1
        return None

    def _work(self, compute: ComputeGradient) -> ComputeGradient:
        """What the method lets a worker make of the gradients of a job."""
        method = self.method

        def work(job: Job, position: int) -> Gradient | None:
            def gradient(i: int) -> Gradient | None:
                number = job.number * method.local_steps + i
                found = compute(job._replace(number=number), position * method.local_steps + i)
                finite = found is not None and self._finite(found)
                return found if finite else None

            return method.work(self.parameters, gradient)

        return work

    def before_update(self) -> None:
        """The newest iterate is about to change. The direction of the step cannot be asked for any more."""
        self._updating = True
        self.versions.preserve(self.completed, self.method.max_delay(self.completed + 1))

    def after_update(self) -> None:
        """The step has been made, whether the parameters changed or not.

        Raises:
            RuntimeError: if there is no step by the horizon.
        """
        step = self._pending or self.next_step()
        if step is self._late:
            raise RuntimeError(f"no step is made by the horizon, {self._horizon}: set `horizon` to a later time first")
        self._pending, self._updating = None, False
        self.completed += 1
        self.logical_time = step.time
        self.discarded += step.discarded
        self.arrived = self._arrived_by_next

    def metrics(self, step: Step) -> dict[str, float]:
        """What loggers are told about the last step, by name: `bits_sent`, and what the method has to say.

        `bits_sent` are those of all gradients that workers have sent, in full, unless the method counts its own.
        """
        sent = 8.0 * self.arrived * self.method.message_bytes(self.cluster)
        return {"bits_sent": sent, **self.method.metrics(step)}

    def fast_forward(self, steps: int) -> None:
        """Replay the schedule, without gradients, until `steps` steps have been made."""
        while self.completed < steps:
            self.after_update()
            self.versions.forget_released()

    def state_dict(self) -> dict[str, Any]:
        """What cannot be replayed: the number of steps made, past iterates, the method's tensors.

        Tensors are not copied: the next steps change them.
        """
        return {
            "completed": self.completed,
            "updating": self._updating,
            "nonfinite": self.nonfinite,
            "versions": self.versions.state_dict(),
            "method": self.method.state_dict(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue where `state_dict` was taken.

        Raises:
            RuntimeError: if this server has made a step already: a schedule cannot be turned back.
            ValueError: if the state was taken in the middle of an update, which needed iterates are dropped in.
        """
        if self.completed:
            raise RuntimeError(f"a state is loaded before the first step, and this server has made {self.completed}")
        if state.get("updating"):
            raise ValueError(
                f"it was written in the middle of step {state['completed']}, by an exception in the optimizer or in "
                f"on_before_optimizer_step, when past iterates which the step is made of had been dropped"
            )
        self.fast_forward(state["completed"])
        self.nonfinite = state["nonfinite"]
        self.versions.load_state_dict(state["versions"])
        self.method.load_state_dict(_moved(state["method"], self.parameters[0].device))


def _moved(state: Any, device: torch.device) -> Any:
    """A state with its tensors on a device: checkpoints are read to the CPU."""
    if isinstance(state, Tensor):
        return state.to(device)
    if isinstance(state, dict):
        return {key: _moved(value, device) for key, value in state.items()}
    if isinstance(state, (list, tuple)):
        return type(state)(_moved(value, device) for value in state)
    return state
