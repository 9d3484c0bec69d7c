"""Federated learning with buffered asynchronous aggregation."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence

from torch import Tensor

from lightning_async.arguments import count, real
from lightning_async.methods.base import Direction, Gradient, Method
from lightning_async.methods.gradient_table import accumulate, divided
from lightning_async.simulation import Cluster, Job, Step


class FedBuff(Method):
    """Workers train locally and send how far they came; the server steps along the mean of a few such differences.

    Nguyen et al. 2022 (arXiv 2106.06639), Algorithms 1 and 2: a job is `local_steps` steps of SGD with step size
    `local_lr` from x_v to some y, one mini-batch of the worker's data each. The worker sends Delta = x_v - y, and
    restarts at once at the newest iterate. With every `buffer`-th arrival there is an update, along
    (1 / buffer) sum_i (1 + delay_i)^(-1/2) Delta_i. That is what the optimizer gets as the gradient, so that its
    learning rate is the server's: with `torch.optim.SGD(lr=1.0)` the mean difference is subtracted as it is.

    Who is fast sends more often and pulls harder: with data of their own, workers do not count the same.

    A job takes the time of `local_steps` gradients, and the link is used once. Each local step has its own randomness,
    and its own mini-batch: `simulate` calls its gradient function for each, with a job whose `number` counts the local
    steps of the worker; a batch of the Trainer is a list of `buffer * local_steps` mini-batches.

    A job ends with the first gradient that is not finite or missing, and is left out; the mean is over the others then.

    Memory: `buffer` differences during a step, one more copy of the parameters during a job; nothing between steps.

    Args:
        buffer: K >= 1, arrivals for an update.
        local_steps: gradients of a job, >= 1.
        local_lr: step size of the local steps, > 0.
        staleness_exponent: a >= 0 in the weights (1 + delay)^(-a); 0 for equal weights.

    Raises:
        TypeError: if an argument is of the wrong kind.
        ValueError: if an argument is out of range.

    Example:
        >>> from lightning_async.simulation import FixedTimes, SimulatedCluster
        >>> method = FedBuff(buffer=2, local_steps=5, local_lr=0.1)
        >>> schedule = method.steps(SimulatedCluster(FixedTimes([1.0, 2.5])))
        >>> [(step.time, [job.worker for job in step.jobs], step.delays) for step, _ in zip(schedule, range(3))]
        [(10.0, [0, 0], (0, 0)), (15.0, [1, 0], (1, 0)), (25.0, [0, 0], (0, 0))]
    """

    def __init__(self, buffer: int, local_steps: int, local_lr: float, *, staleness_exponent: float = 0.5) -> None:
        self.buffer = count("buffer", buffer)
        self.local_steps = count("local_steps", local_steps)
        self.local_lr = real("local_lr", local_lr, above=0.0)
        self.staleness_exponent = real("staleness_exponent", staleness_exponent, at_least=0.0)

    def steps(self, cluster: Cluster) -> Iterator[Step]:
        """One update per `buffer` arrivals."""
        cluster.dispatch_all(version=0)
        for k in itertools.count():
            jobs: list[Job] = []
            while True:
                arrival = cluster.next_arrival()
                jobs.append(arrival.job)
                if len(jobs) == self.buffer:
                    break
                cluster.dispatch(arrival.worker, version=k)
            yield Step(k, arrival.time, tuple(jobs))
            cluster.dispatch(arrival.worker, version=k + 1)

    def work(self, parameters: Sequence[Tensor], gradient: Callable[[int], Gradient | None]) -> Gradient | None:
        """Delta: the iterate that the parameters hold minus where SGD leads from there."""
        start = [p.data for p in parameters]
        try:
            for p in parameters:
                p.data = p.data.clone()
            for i in range(self.local_steps):
                g = gradient(i)
                if g is None:
                    return None
                for p, direction in zip(parameters, g, strict=True):
                    if direction is not None:
                        p.data.sub_(direction, alpha=self.local_lr)
            return [x - p.data for x, p in zip(start, parameters, strict=True)]
        finally:
            for p, x in zip(parameters, start, strict=True):
                p.data = x

    def direction(self, step: Step, gradients: list[Gradient]) -> Direction:
        """The mean of the differences, weighted by their staleness."""
        total: list[Tensor | None] = [None] * len(gradients[0])
        for delay, difference in zip(step.delays, gradients, strict=True):
            accumulate(total, difference, float((1 + delay) ** -self.staleness_exponent))
        return divided(total, len(gradients))

    def jobs_per_step(self, num_workers: int) -> int | None:
        """K."""
        return self.buffer
