"""What a method is: a schedule without tensors, and a direction made of the gradients of one step."""

from __future__ import annotations

import functools
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

from torch import Tensor

from lightning_async.described import Described
from lightning_async.simulation import Cluster, SimulatedCluster, Step

Gradient: TypeAlias = Sequence[Tensor | None]
"""One tensor per parameter of the optimizer, in its order; None where the parameter took no part."""

Direction: TypeAlias = Gradient | tuple[Gradient, Gradient]
"""What the optimizer is given as the gradient; of a pair, the second goes to its `set_second_gradient`."""

_Steps: TypeAlias = Callable[[Any, Cluster], Iterator[Step]]


class Method(Described, ABC):
    """A server algorithm.

    A subclass writes two things. `steps` is the schedule: who computes what, when, and what of it is used, as a
    generator over the primitives of a `Cluster`, without a tensor in it. `direction` is what the server does with the
    gradients of one step. Everything else has a default.

    `steps` always begins at time 0: whatever cluster it is given, it runs on a fresh run of it, so that a cluster
    object can be used any number of times.

    Constructor arguments are kept in attributes of their names: a method is shown and compared by them, and a run is
    only resumed with one that compares equal.

    Example:
        >>> from lightning_async.methods import ASGD
        >>> from lightning_async.simulation import FixedTimes, SimulatedCluster
        >>> schedule = ASGD().steps(SimulatedCluster(FixedTimes([1.0, 2.5])))
        >>> [(step.index, step.time, step.jobs[0].worker, step.delays[0]) for step, _ in zip(schedule, range(4))]
        [(0, 1.0, 0, 0), (1, 2.0, 0, 0), (2, 2.5, 1, 2), (3, 3.0, 0, 1)]
    """

    averages: bool = False
    """Whether `direction` is the plain mean of the gradients, so that they may be summed up as they come."""

    sums_by_worker: bool = False
    """Whether `direction` is given the sum of the gradients of each worker in place of every single one."""

    local_steps: int = 1
    """How many gradients, each on a mini-batch of its own, a job computes one after the other; see `work`."""

    waits_for_all: bool = False
    """Whether there is no step until every worker has sent a gradient."""

    supports_sparse: bool = False
    """Whether `direction` can take sparse gradients."""

    clip: float | None = None
    """Euclidean norm to which workers scale a longer gradient down before they send it; None if they do not."""

    needs_averaged_momentum: bool = False
    """Whether the momentum that the method sets is the weight of an average: the optimizer's `averages_momentum`."""

    _message_bytes: float | None = None
    _run: object = None  # stands for the run whose state the method holds

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "steps" in cls.__dict__:
            cls.steps = _on_a_fresh_run(cls.__dict__["steps"])  # type: ignore[assignment]

    @abstractmethod
    def steps(self, cluster: Cluster) -> Iterator[Step]:
        """The schedule: the server updates in order of logical time.

        A step's jobs must have arrived since the previous step; what arrived and is not used is counted in
        `Step.discarded`. While the generator is suspended at a step k, x_{k+1} does not exist yet: it does when it is
        resumed.
        """

    @abstractmethod
    def direction(self, step: Step, gradients: list[Gradient]) -> Direction | None:
        """What the optimizer is given as the gradient of this step; None if nothing can be made of the gradients.

        Args:
            step: the step, with those of its jobs only whose gradients are finite.
            gradients: their gradients, in the order of `step.jobs`, at least one. They belong to the method, which may
                change them in place. If `sums_by_worker`, there is one for each worker of these jobs, in the order in
                which the workers come first.
        """

    def work(self, parameters: Sequence[Tensor], gradient: Callable[[int], Gradient | None]) -> Gradient | None:
        """What a worker makes of a job, and sends; counts as its gradient everywhere else. By default, it is just that.

        Args:
            parameters: they hold the iterate of the job, and must hold it again at the end.
            gradient: computes the gradient at what the parameters hold, on the i-th mini-batch of the job, for i in
                turn from 0 to `local_steps` - 1; None if it is missing or not finite.

        Returns:
            One tensor or None per parameter; None if the job cannot be used.
        """
        return gradient(0)

    def jobs_per_step(self, num_workers: int) -> int | None:
        """How many jobs every step uses; None if it varies."""
        return 1

    def num_shards(self, num_workers: int) -> int:
        """Owners of the data if they are split: the workers, or what the method distributes in their place."""
        return num_workers

    def used_time(self, step: Step, cluster: SimulatedCluster) -> float:
        """Worker time that went into what the step uses, in logical time, all workers together."""
        return sum(cluster.worker_time(job) for job in step.jobs)

    def metrics(self, step: Step) -> dict[str, float]:
        """What loggers are told about the step that was made last, by name; nothing for most methods."""
        return {}

    def lr_multiplier(self, step: Step) -> float:
        """Factor on the step size of this step; the learning rate that schedulers see stays as it is."""
        return 1.0

    def momentum(self, step: Step) -> float | None:
        """Momentum to be used in this step only; None leaves the optimizer's own."""
        return None

    def max_delay(self, index: int) -> int | None:
        """Largest delay that a gradient used in step `index` can have; None if there is no bound.

        Iterates that are older are dropped, so that the bound may grow by at most one from a step to the next.
        """
        return None

    def bind(self, num_coordinates: int, bytes_per_coordinate: float) -> None:
        """Tell the schedule how large the model is, so that messages can have a size.

        Args:
            num_coordinates: number of trainable scalars, d.
            bytes_per_coordinate: size of one of them in a message, in bytes.
        """
        self._message_bytes = num_coordinates * bytes_per_coordinate

    def message_bytes(self, cluster: Cluster) -> float:
        """Size of the model, and of a gradient, in bytes.

        Raises:
            RuntimeError: if the cluster's link has a finite bandwidth and the method does not know the size.
        """
        if self._message_bytes is not None:
            return self._message_bytes
        if isinstance(cluster, SimulatedCluster) and cluster.link.bandwidth < math.inf:
            raise RuntimeError(
                f"the link has a finite bandwidth ({cluster.link.bandwidth} bytes per unit of logical time), so that "
                f"the schedule depends on the size of the model: call method.bind(num_coordinates, "
                f"bytes_per_coordinate) before method.steps(cluster)"
            )
        return 0.0

    def state_dict(self) -> dict[str, Any]:
        """Tensor state that outlives a step; empty for most methods."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore what `state_dict` returned; tensors are on the device of the parameters.

        Raises:
            ValueError: if the method has no state.
        """
        if state:
            raise ValueError(f"{type(self).__name__} has no state, but was given {sorted(state)}")

    def reset(self) -> None:
        """Forget the tensor state: called before a run from step 0."""
        return


def _on_a_fresh_run(steps: _Steps) -> _Steps:
    @functools.wraps(steps)
    def wrapper(self: Method, cluster: Cluster) -> Iterator[Step]:
        if getattr(type(self), "steps", None) is wrapper:  # otherwise a subclass, which has done it, asks its base
            cluster = cluster.start(self.message_bytes(cluster), gradients_per_job=self.local_steps)
        return steps(self, cluster)

    return wrapper
