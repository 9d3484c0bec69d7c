"""The training data of a run: one item per server step, its mini-batches drawn in the order in which they are used."""

from __future__ import annotations

import math
import warnings
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sized
from typing import Any

from torch.utils.data import DataLoader, IterableDataset, RandomSampler, SequentialSampler

from lightning_async.data.cursor import SHARED, Cursor
from lightning_async.data.minibatches import minibatch_loader
from lightning_async.data.orders import Order, Position, SamplerOrder, ShardOrder
from lightning_async.data.partition import Partition
from lightning_async.simulation import Step


class StepLoader:
    """Wraps a training DataLoader: the same data, in an order that is a function of (seed, epoch, position).

    An item is what one step needs: the list of its mini-batches, the j-th for the j-th job, or the bare mini-batch if
    every step of the method has exactly one job. The position (`Cursor`) counts steps that have been made, not what was
    read ahead.

    Args:
        loader: the user's training loader: its dataset, sampler, collate function, batch size, processes.
        seed: the run's seed.
        jobs_per_step: how many jobs every step has; None if that varies.
        schedule: makes the run's schedule anew; read if the number of jobs varies or workers own their data.
        partition: how the data are split over the workers; None if all draw from one stream.
        num_workers: number of workers of the cluster.
        max_steps_per_epoch: what limits an epoch, if anything does: then a pass over the data is as short.

    Raises:
        TypeError: if a partition is asked for and the data cannot be split.
        ValueError: if the data make no mini-batch.
    """

    # Lightning sets the epoch of samplers that it finds on a loader; the epochs of the data are counted here.
    sampler = None
    batch_sampler = None

    def __init__(
        self,
        loader: Any,
        *,
        seed: int,
        jobs_per_step: int | None,
        schedule: Callable[[], Iterator[Step]],
        partition: Partition | None = None,
        num_workers: int,
        max_steps_per_epoch: int | None = None,
    ) -> None:
        self.loader = loader
        self._jobs_per_step = jobs_per_step
        length = _length(loader)
        if length == 0 and partition is None:
            raise ValueError(_too_few(loader))
        self._steps_per_epoch = None if length is None else max(1, length // (jobs_per_step or 1))
        self._limited = max_steps_per_epoch is not None
        limit = None if max_steps_per_epoch is None else max_steps_per_epoch * (jobs_per_step or 1)
        orders: dict[int, Order] = {}
        if partition is not None:
            orders = _shard_orders(loader, partition, num_workers, seed, limit)
        elif _is_map_style(loader):
            sampler = loader.sampler if loader.batch_sampler is None else loader.batch_sampler
            orders = {SHARED: SamplerOrder(sampler, seed, limit)}
        shards = [order.shard for order in orders.values() if isinstance(order, ShardOrder)]
        self._owners = zlib.crc32(b"".join(shard.tobytes() + b"|" for shard in shards)) if shards else None
        self._cursor = Cursor(orders, jobs_per_step=jobs_per_step, schedule=schedule, sharded=partition is not None)
        # The loader's processes are shut down properly only if no cycle of references leads back here.
        requests = self._cursor.requests
        self._minibatches = minibatch_loader(loader, requests, seed) if orders else None
        self._stream: Iterator[Any] | None = None  # of an iterable, which goes on across epochs
        self._passes = 0
        if not orders:
            warnings.warn(
                f"the training data ({type(loader).__name__}) can only be read in order, as an IterableDataset, an "
                f"iterable that is not a DataLoader, or a DataLoader with an __iter__ of its own: a run that is "
                f"resumed in the middle of an epoch reads that epoch from its beginning. Use a torch DataLoader over a "
                f"map-style dataset to have it continue where it was.",
                stacklevel=2,
            )

    @property
    def completed(self) -> int:
        """Number of steps that were made."""
        return self._cursor.completed

    @property
    def positions(self) -> dict[int, Position]:
        """Next mini-batch of every shard that has been read, after the steps that were made."""
        return self._cursor.positions

    @property
    def keeps_position(self) -> bool:
        """Whether a run that is resumed goes on where it was, in the middle of an epoch too."""
        return self._minibatches is not None

    @property
    def size(self) -> dict[str, int | None]:
        """Batch size, number of samples and a checksum of their owners, by which changed data are recognized.

        None where something is not known.
        """
        sampler = getattr(self.loader, "batch_sampler", None)
        batch_size = getattr(self.loader, "batch_size", None) or getattr(sampler, "batch_size", None)
        dataset = getattr(self.loader, "dataset", None)
        return {
            "batch_size": batch_size if isinstance(batch_size, int) else None,
            "samples": _length(dataset),
            "checksum_of_owners": self._owners,
        }

    @property
    def _iterator(self) -> Any:
        """The iterator with the persistent processes, which Lightning shuts down at the end of a fit."""
        return getattr(self._minibatches, "_iterator", None)

    @_iterator.setter
    def _iterator(self, iterator: Any) -> None:
        if isinstance(self._minibatches, DataLoader):
            self._minibatches._iterator = iterator

    def __getattr__(self, name: str) -> Any:
        # A loader with a state would have it in checkpoints, where a plain Trainer with a plain loader refuses it; the
        # position is in the strategy's state.
        if name.startswith("__") or name in ("loader", "state_dict", "load_state_dict"):
            raise AttributeError(name)
        return getattr(self.loader, name)

    def __len__(self) -> int:
        """Steps in an epoch.

        Raises:
            TypeError: if the length of the data is not known.
        """
        if self._steps_per_epoch is None:
            raise TypeError("the length of the training data is not known")
        return self._steps_per_epoch

    def __iter__(self) -> Iterator[Any]:
        """The items of one epoch, from the first step that was not made."""
        self._cursor.rewind()
        steps = range(self._steps_per_epoch) if self._steps_per_epoch is not None else iter(int, 1)
        read = self._read_in_order() if self._minibatches is None else self._read_requested(self._minibatches)
        for _ in steps:
            item = next(read, None)
            if item is None:
                return
            yield item[0] if self._jobs_per_step == 1 else item

    def commit(self) -> None:
        """The step that was read first and not committed yet has been made."""
        self._cursor.commit()

    def seek(self, completed: int, positions: Mapping[int, tuple[int, int]]) -> None:
        """Go to the position after `completed` steps."""
        self._cursor.seek(completed, positions)
        self._stream = None

    def _read_requested(self, loader: Iterable[Any]) -> Iterator[list[Any]]:
        minibatches = iter(loader)
        while True:
            shards = self._cursor.next_step()
            if not shards:
                next(minibatches)
            item = [next(minibatches) for _ in shards]
            self._cursor.step_read(shards)
            yield item

    def _read_in_order(self) -> Iterator[list[Any]]:
        """The items of one epoch of data that can only be read in order; mini-batches left over open the next one."""
        if self._stream is None or self._limited:
            self._stream = self._endless()
        passes = self._passes
        while self._steps_per_epoch is not None or self._passes == passes:
            shards = self._cursor.next_step()
            item = [next(self._stream) for _ in shards]
            self._cursor.step_read(shards)
            yield item

    def _endless(self) -> Iterator[Any]:
        while True:
            empty = True
            for batch, is_last in _with_last(self.loader):
                empty = False
                self._passes += is_last
                yield batch
            if empty:
                raise RuntimeError(
                    "the training data are empty, or an iterator that was used up: there is nothing to train on. Give "
                    "something that can be read again and again, such as a DataLoader"
                )


def _with_last(batches: Iterable[Any]) -> Iterator[tuple[Any, bool]]:
    """Each mini-batch, and whether it is the last one."""
    iterator = iter(batches)
    for batch in iterator:
        for following in iterator:
            yield batch, False
            batch = following
        yield batch, True


def _length(loader: Any) -> int | None:
    try:
        return len(loader) if isinstance(loader, Sized) else None
    except TypeError:  # a DataLoader of an IterableDataset without a length has a __len__ that raises
        return None


def _too_few(loader: Any) -> str:
    """Why there is not a single mini-batch, and what to do."""
    samples = _length(getattr(loader, "dataset", None))
    batch_size = getattr(loader, "batch_size", None)
    if not samples:
        return f"the training data ({type(loader).__name__}) are empty, length 0: there is nothing to train on"
    if batch_size is not None and loader.drop_last and samples < batch_size:
        return (
            f"the training data have {samples} samples, fewer than batch_size={batch_size}, and drop_last=True drops "
            f"the incomplete mini-batch: nothing is left to train on. Use batch_size={samples} or less, or "
            f"drop_last=False."
        )
    return (
        f"the sampler of the training data makes no mini-batch of {samples} samples. Check its length, batch_size and "
        f"drop_last."
    )


def _is_map_style(loader: Any) -> bool:
    return (
        isinstance(loader, DataLoader)
        and type(loader).__iter__ is DataLoader.__iter__
        and not isinstance(loader.dataset, IterableDataset)
    )


def _shard_orders(
    loader: Any, partition: Partition, num_workers: int, seed: int, limit: int | None
) -> dict[int, Order]:
    """One stream per worker; a limited pass over the data is made of equal parts of all workers.

    Raises:
        TypeError: if the loader is not one whose data can be split.
    """
    if not _is_map_style(loader):
        raise TypeError(
            f"partition={partition!r} needs a DataLoader over a map-style dataset, whose samples have owners, got "
            f"{type(loader).__name__}"
            + (f" over {type(loader.dataset).__name__}, an IterableDataset" if hasattr(loader, "dataset") else "")
        )
    if loader.batch_size is None:
        raise TypeError(
            f"partition={partition!r} makes the mini-batches of each worker itself: give the DataLoader a batch_size "
            f"in place of a batch_sampler"
        )
    shuffled = isinstance(loader.sampler, RandomSampler) and not loader.sampler.replacement
    if not shuffled and not isinstance(loader.sampler, SequentialSampler):
        raise TypeError(
            f"partition={partition!r} reads each worker's samples in order or shuffled, as shuffle=False or "
            f"shuffle=True of the DataLoader says; it cannot use a {type(loader.sampler).__name__}"
            + (" with replacement" if isinstance(loader.sampler, RandomSampler) else "")
        )
    shards = partition.assign(loader.dataset, num_workers, seed)
    return {
        worker: ShardOrder(
            shard,
            loader.batch_size,
            shuffle=shuffled,
            drop_last=loader.drop_last,
            seed=seed,
            worker=worker,
            limit=None if limit is None else max(1, math.ceil(limit / num_workers)),
        )
        for worker, shard in enumerate(shards)
    }
