"""The plain loop: any method on any objective, without a Trainer."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from typing import overload

from torch import Tensor
from torch.optim import Optimizer

from lightning_async.arguments import boolean, count, real
from lightning_async.gradient_function import GradientFunction
from lightning_async.methods import Gradient, Method, ReplicaMethod
from lightning_async.methods.apply import check_first_order, check_momentum, optimizer_step, set_gradients
from lightning_async.methods.local_training import LocalTraining
from lightning_async.methods.nonfinite import OnNonFinite
from lightning_async.methods.parameters import check_distinct
from lightning_async.methods.server import ParameterServer
from lightning_async.replica_loop import ReplicaSimulation
from lightning_async.simulation import Job, SimulatedCluster, Step


class Simulation(Iterator[Step]):
    """The steps of a running simulation; see `simulate`.

    Attributes:
        server: the parameter server: counts (`completed`, `discarded`, `nonfinite`), `logical_time`, past iterates.
    """

    def __init__(
        self,
        server: ParameterServer,
        optimizer: Optimizer,
        gradient_fn: Callable[[Job], Gradient],
        max_steps: int | None,
        max_time: float | None,
    ) -> None:
        self.server = server
        self._optimizer = optimizer
        method = server.method
        one_job = method.jobs_per_step(server.cluster.num_workers) == method.local_steps == 1
        self._compute = GradientFunction(gradient_fn, server.parameters, check_all=not one_job)
        self._max_steps = math.inf if max_steps is None else max_steps
        self._max_time = math.inf if max_time is None else max_time
        server.horizon = self._max_time

    def __next__(self) -> Step:
        server = self.server
        if server.completed >= self._max_steps:
            raise StopIteration
        step = server.next_step()
        if step.time > self._max_time:
            raise StopIteration
        try:
            direction = server.direction(self._compute)
            server.before_update()
            if direction is not None:
                set_gradients(server.parameters, direction, self._optimizer)
        except (AttributeError, RuntimeError, TypeError):
            self._compute.explain()
            raise
        if direction is not None:
            optimizer_step(self._optimizer, server.method, step)
        server.after_update()
        return step


@overload
def simulate(
    method: Method,
    cluster: SimulatedCluster,
    parameters: Iterable[Tensor],
    optimizer: Optimizer,
    gradient_fn: Callable[[Job], Gradient],
    max_steps: int | None = None,
    max_time: float | None = None,
    on_nonfinite: OnNonFinite = "discard",
    *,
    sharded: bool = False,
) -> Simulation: ...


@overload
def simulate(
    method: ReplicaMethod,
    cluster: SimulatedCluster,
    parameters: Iterable[Tensor],
    optimizer: Optimizer,
    gradient_fn: Callable[[Job], Gradient],
    max_steps: int | None = None,
    max_time: float | None = None,
    on_nonfinite: OnNonFinite = "discard",
    *,
    sharded: bool = False,
) -> ReplicaSimulation: ...


def simulate(
    method: Method | ReplicaMethod,
    cluster: SimulatedCluster,
    parameters: Iterable[Tensor],
    optimizer: Optimizer,
    gradient_fn: Callable[[Job], Gradient],
    max_steps: int | None = None,
    max_time: float | None = None,
    on_nonfinite: OnNonFinite = "discard",
    *,
    sharded: bool = False,
) -> Simulation | ReplicaSimulation:
    """Run a method on an objective of your own, one step at a time.

    A step is a server update, or, of a method that trains replicas, one local step. While the gradient of a local step
    is computed, the parameters hold the replica of its worker, and the optimizer has that replica's state; when a step
    has closed a round, and at the end, they hold the average model.

    Args:
        method: the algorithm.
        cluster: the workers.
        parameters: what is optimised, in the optimizer's order; the run begins where they stand.
        optimizer: makes the step along the method's direction.
        gradient_fn: called with a job while `parameters` hold the iterate of the job; returns its gradient, a list of
            one tensor per parameter and of its shape, dtype and device (None if it took no part). Where a step has one
            job, the tensors then belong to the method.
        max_steps: how many steps to make at most; no limit if None.
        max_time: steps of logical time <= max_time are made; no limit if None.
        on_nonfinite: what becomes of a gradient that is NaN or infinite: "discard" leaves it out, "raise" stops.
        sharded: whether data have owners: then `job.shard` is the worker, or, in gradient coding, the partition.

    Returns:
        An iterator over the steps. When it yields server update k, the parameters hold x_{k+1}.

    Raises:
        ValueError: if a limit is negative or NaN, there is no parameter or one twice, the optimizer steps others, takes
            several gradients a step, or has no averaged momentum where the method needs one, a gradient is not one
            tensor per parameter and of its shape, or `max_time` ends before replicas are merged for the first time.
        TypeError: if an argument is of the wrong kind.
        NonFiniteGradientError: from a step, if a gradient is NaN or infinite and `on_nonfinite` is "raise".
        NoArrivalError: from a step, if the method waits for jobs of which none will ever finish.

    Example:
        >>> import torch
        >>> from lightning_async import SimulatedCluster, simulate
        >>> from lightning_async.methods import ASGD
        >>> from lightning_async.simulation import TwoSpeedTimes
        >>> x = torch.tensor([4.0])
        >>> cluster = SimulatedCluster(TwoSpeedTimes(num_workers=4, slowdown=3.0))
        >>> sgd = torch.optim.SGD([x], lr=0.1)
        >>> for step in simulate(ASGD(), cluster, [x], sgd, lambda job: [x.clone()], max_time=10.0):
        ...     pass
        >>> step.index, step.time, round(x.item(), 3)
        (25, 10.0, -0.008)
    """
    if not isinstance(method, (Method, ReplicaMethod)):
        raise TypeError(f"method must be a Method such as ASGD(), or a ReplicaMethod such as LOSCAR, got {method!r}")
    if not isinstance(cluster, SimulatedCluster):
        raise TypeError(f"cluster must be a SimulatedCluster, got {cluster!r}")
    if not isinstance(optimizer, Optimizer):
        raise TypeError(f"optimizer must be a torch.optim.Optimizer that has been constructed, got {optimizer!r}")
    check_first_order(optimizer)
    if max_steps is not None:
        max_steps = count("max_steps", max_steps, at_least=0, note=", or None for no limit")
    if max_time is not None:
        max_time = real("max_time", max_time, at_least=0.0, finite=False, note=", or None for no limit")
    boolean("sharded", sharded)
    if isinstance(parameters, Tensor):
        raise TypeError("parameters must be the tensors that the optimizer steps, in a list, got a single tensor")
    parameters = list(parameters)
    check_distinct(parameters)
    optimized = {id(p) for group in optimizer.param_groups for p in group["params"]}
    if parameters and {id(p) for p in parameters} != optimized:
        raise ValueError(
            f"parameters must be the tensors that the optimizer steps, which are {len(optimized)}; got "
            f"{len(parameters)}, of which {sum(id(p) in optimized for p in parameters)} are among them"
        )
    if isinstance(method, ReplicaMethod):
        local = LocalTraining(
            method, cluster, parameters, optimizer, sharded=sharded, on_nonfinite=on_nonfinite, owned=False
        )
        return ReplicaSimulation(local, optimizer, gradient_fn, max_steps, max_time)
    check_momentum(optimizer, method)
    server = ParameterServer(method, cluster, parameters, sharded=sharded, on_nonfinite=on_nonfinite, owned=False)
    return Simulation(server, optimizer, gradient_fn, max_steps, max_time)
