"""The plain loop of methods that train replicas."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator

from torch import Tensor
from torch.optim import Optimizer

from lightning_async.gradient_function import GradientFunction
from lightning_async.methods import Gradient
from lightning_async.methods.apply import set_gradients
from lightning_async.methods.local_training import LocalTraining
from lightning_async.simulation import Job, Step


class ReplicaSimulation(Iterator[Step]):
    """The local steps of a running simulation; see `lightning_async.simulate`.

    Attributes:
        local: the replicas; counts over completed rounds (`rounds`, `num_bytes`, `hidden`, `idle`), `logical_time`.

    Raises:
        ValueError: if `max_time` ends before the first merge.
    """

    def __init__(
        self,
        local: LocalTraining,
        optimizer: Optimizer,
        gradient_fn: Callable[[Job], Gradient],
        max_steps: int | None,
        max_time: float | None,
    ) -> None:
        self.local = local
        self._optimizer = optimizer
        self._compute = GradientFunction(gradient_fn, local.parameters)
        self._max_steps = math.inf if max_steps is None else max_steps
        self._max_time = math.inf if max_time is None else max_time
        local.check_budget(self._max_time)
        if (unmerged := local.ends_unmerged(self._max_steps)) is not None:
            warnings.warn(f"simulate(max_steps={max_steps}) {unmerged}", stacklevel=3)

    @property
    def replicas(self) -> Tensor:
        """The parameters of all replicas, `(n, d)`, each in the order of its memory; to be read only."""
        return self.local.replicas.flat.compact()

    def __next__(self) -> Step:
        local = self.local
        step = local.next_step()
        if local.completed >= self._max_steps or step.time > self._max_time:
            if local.completed:
                local.replicas.enter_average()
            raise StopIteration
        local.enter()
        gradient = self._compute(step.jobs[0])
        try:
            finite = local.is_finite(gradient)
            if finite:
                set_gradients(local.parameters, gradient, self._optimizer)
        except (AttributeError, RuntimeError, TypeError):
            self._compute.explain()
            raise
        if finite:
            self._optimizer.step()
        else:
            local.refuse_gradient()
        if local.after_step():
            local.replicas.enter_average()
        return step
