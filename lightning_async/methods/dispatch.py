"""Who gets the next job."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, TypeAlias

import numpy as np

from lightning_async.simulation import Cluster

Dispatch: TypeAlias = Literal["finisher", "uniform"]
"""The worker that has just finished, or one drawn uniformly."""

_DOMAIN = 0x6469737061746368  # separates these draws from the worker times that come from the same seed
_BLOCK = 1024


class UniformDispatch(Iterator[int]):
    """An endless sequence of workers, drawn uniformly and independently, that depends on the cluster's seed only."""

    def __init__(self, cluster: Cluster) -> None:
        self._num_workers = len(cluster.workers)
        key = np.array([cluster.seed % 2**64, _DOMAIN], dtype=np.uint64)
        self._generator = np.random.Generator(np.random.Philox(key=key))
        self._block: Iterator[int] = iter(())

    def __next__(self) -> int:
        for worker in self._block:
            return worker
        self._block = iter(self._generator.integers(self._num_workers, size=_BLOCK).tolist())
        return next(self._block)
