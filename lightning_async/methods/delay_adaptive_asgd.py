"""Delay-adaptive asynchronous SGD."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from lightning_async.arguments import choice, count
from lightning_async.methods.base import Direction, Gradient, Method
from lightning_async.simulation import Cluster, Step

_OR_NONE = ", or None for the number of workers"


class DelayAdaptiveASGD(Method):
    """Asynchronous SGD that takes smaller steps along staler gradients, or none.

    Koloskova et al. 2022 (arXiv 2206.08307) and Mishchenko et al. 2022 (arXiv 2206.07638): with C jobs that are out at
    a time, a gradient of delay delta is used with step eta min(1, C / delta).

    Args:
        rule: "scale" as above; "drop" uses gradients of delay at most C with the full step and discards the others.
        concurrency: C; the number of workers if None.

    Raises:
        TypeError: if `rule` is not a string, or `concurrency` not an integer.
        ValueError: if `rule` is neither, or `concurrency` is below 1.
    """

    supports_sparse = True

    def __init__(self, rule: Literal["scale", "drop"] = "scale", concurrency: int | None = None) -> None:
        self.rule = choice("rule", rule, ("scale", "drop"))
        self.concurrency = None if concurrency is None else count("concurrency", concurrency, note=_OR_NONE)
        self._num_workers: int | None = None

    def steps(self, cluster: Cluster) -> Iterator[Step]:
        """One update per arrival that is not dropped."""
        self._num_workers = len(cluster.workers)
        limit = self._concurrency if self.rule == "drop" else None
        k = discarded = 0
        cluster.dispatch_all(version=0)
        while True:
            arrival = cluster.next_arrival()
            if limit is None or k - arrival.version <= limit:
                yield Step(k, arrival.time, (arrival.job,), discarded)
                k, discarded = k + 1, 0
            else:
                discarded += 1
            cluster.dispatch(arrival.worker, version=k)

    def direction(self, step: Step, gradients: list[Gradient]) -> Direction:
        """The gradient as it is; the step size carries the delay."""
        return gradients[0]

    def lr_multiplier(self, step: Step) -> float:
        """min(1, C / delta), or 1 with the rule "drop"."""
        (delay,) = step.delays
        return 1.0 if self.rule == "drop" or delay == 0 else min(1.0, self._concurrency / delay)

    def max_delay(self, index: int) -> int | None:
        """C with the rule "drop"."""
        return self._concurrency if self.rule == "drop" else None

    @property
    def _concurrency(self) -> int:
        if self.concurrency is not None:
            return self.concurrency
        if self._num_workers is None:
            raise RuntimeError("concurrency defaults to the number of workers, which is known once `steps` has begun")
        return self._num_workers
