"""Vanilla asynchronous SGD."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import get_args

from lightning_async.arguments import choice
from lightning_async.methods.base import Direction, Gradient, Method
from lightning_async.methods.dispatch import Dispatch, UniformDispatch
from lightning_async.simulation import Cluster, Step


class ASGD(Method):
    """Asynchronous SGD: every arriving gradient is used at once, however stale it is.

    Algorithm 1 of Mishchenko et al. 2022 (arXiv 2206.07638) with a constant step: on each arrival
    x_{k+1} = x_k - eta g.

    Args:
        dispatch: who gets the next job. "finisher": the worker that has just finished, for workers that share the
            data. "uniform": a worker drawn uniformly from all n, whose jobs wait in line at it, for workers with data
            of their own, so that fast ones do not dominate (Koloskova et al. 2022, arXiv 2206.08307, Algorithm 3).

    Raises:
        TypeError: if `dispatch` is not a string.
        ValueError: if `dispatch` is neither.
    """

    supports_sparse = True

    def __init__(self, dispatch: Dispatch = "finisher") -> None:
        self.dispatch = choice("dispatch", dispatch, get_args(Dispatch))

    def steps(self, cluster: Cluster) -> Iterator[Step]:
        """One update per arrival."""
        uniform = UniformDispatch(cluster) if self.dispatch == "uniform" else None
        cluster.dispatch_all(version=0)
        for k in count():
            time, worker, job = cluster.next_arrival()
            yield Step(k, time, (job,))
            cluster.dispatch(worker if uniform is None else next(uniform), k + 1)

    def direction(self, step: Step, gradients: list[Gradient]) -> Direction:
        """The gradient as it is."""
        return gradients[0]
