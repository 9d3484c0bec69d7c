"""In which order a stream's mini-batches come: a pure function of (seed, epoch, position), read lazily."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from lightning_async.data.partition import IndexArray
from lightning_async.data.seeding import own_generators, reseed, seeded
from lightning_async.randomness import derived_seed

Indices: TypeAlias = object
"""What selects one mini-batch: a list of indices, or one index where the loader does not batch."""

_CHUNK = 64


class Position(NamedTuple):
    """Where a stream is: the next mini-batch is number `batch` of pass `epoch` over the data."""

    epoch: int = 0
    batch: int = 0


class Order(ABC):
    """The mini-batches of one stream, pass by pass."""

    @abstractmethod
    def epoch(self, epoch: int) -> Iterator[Indices]:
        """The mini-batches of one pass."""

    def read_from(self, position: Position) -> Iterator[tuple[Position, Indices]]:
        """The endless stream from a position on: each mini-batch with its position.

        Raises:
            RuntimeError: if a pass is empty.
        """
        epoch, start = position
        while True:
            index = -1
            for index, indices in enumerate(self.epoch(epoch)):
                if index >= start:
                    yield Position(epoch, index), indices
            if index < 0:
                raise RuntimeError(f"the sampler yields no mini-batch in epoch {epoch}: there is no data to train on")
            epoch, start = epoch + 1, 0


class SamplerOrder(Order):
    """The order of the user's own (batch) sampler, iterated under a seed of its own for every pass.

    Args:
        sampler: yields what selects a mini-batch.
        seed: the run's seed.
        limit: mini-batches in a pass, if the pass is to be cut short.
    """

    def __init__(self, sampler: Iterable[Indices], seed: int, limit: int | None = None) -> None:
        self.sampler = sampler
        self.seed = seed
        self.limit = limit

    def epoch(self, epoch: int) -> Iterator[Indices]:
        """The sampler's mini-batches, read in small chunks.

        The sampler may draw when it is asked for its iterator or at any later moment, from torch, numpy, `random` or
        generators of its own: every chunk is read under a seed derived from (seed, epoch, chunk).
        """
        iterator: Iterator[Indices] = iter(())
        left = self.limit
        chunk = 0
        samplers = list(_with_inner(self.sampler))
        while left is None or left > 0:
            chunk_seed = derived_seed(self.seed, "order", epoch, chunk)
            with seeded(chunk_seed):
                for sampler in samplers:
                    reseed(own_generators(sampler), chunk_seed)
                if chunk == 0:
                    for sampler in samplers:
                        if hasattr(sampler, "set_epoch"):
                            sampler.set_epoch(epoch)
                    iterator = iter(self.sampler)
                indices = list(islice(iterator, _CHUNK if left is None else min(_CHUNK, left)))
            if not indices:
                return
            yield from indices
            chunk += 1
            left = None if left is None else left - len(indices)


def _with_inner(sampler: Any) -> Iterator[Any]:
    """A sampler, the one that it takes its indices from, and so on."""
    while sampler is not None:
        yield sampler
        sampler = getattr(sampler, "sampler", None)


class ShardOrder(Order):
    """One worker's own samples, in order or shuffled anew for every pass.

    Args:
        shard: the indices that the worker owns.
        batch_size: samples in a mini-batch.
        shuffle: whether every pass has an order of its own.
        drop_last: whether an incomplete last mini-batch is dropped, unless it is the only one.
        seed: the run's seed.
        worker: the worker, so that workers shuffle independently.
        limit: mini-batches in a pass, if the pass is to be cut short.
    """

    def __init__(
        self,
        shard: IndexArray,
        batch_size: int,
        *,
        shuffle: bool,
        drop_last: bool,
        seed: int,
        worker: int,
        limit: int | None = None,
    ) -> None:
        self.shard = shard
        self.batch_size = batch_size
        self.shuffle = shuffle
        self.drop_last = drop_last
        self.seed = seed
        self.worker = worker
        self.limit = limit

    def epoch(self, epoch: int) -> Iterator[Indices]:
        """The mini-batches of one pass over the shard."""
        indices = self.shard
        if self.shuffle:
            indices = np.random.default_rng(derived_seed(self.seed, "shard", self.worker, epoch)).permutation(indices)
        end = len(indices)
        if self.drop_last and end > self.batch_size:
            end -= end % self.batch_size
        if self.limit is not None:
            end = min(end, self.limit * self.batch_size)
        for start in range(0, end, self.batch_size):
            yield indices[start : min(start + self.batch_size, end)].tolist()
