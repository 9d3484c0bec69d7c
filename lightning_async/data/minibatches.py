"""A dataset of mini-batches: one item is one collated mini-batch, loaded under a seed of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, cast

import torch
from torch.utils.data import DataLoader, Dataset, TensorDataset, default_collate, default_convert, get_worker_info

from lightning_async.data.seeding import seeded
from lightning_async.randomness import derived_seed


class Request(NamedTuple):
    """Which mini-batch to load.

    Attributes:
        name: what it is called, by which its random draws are told from those of others: shard, epoch, position.
        indices: what selects it; None if there is nothing to load.
    """

    name: tuple[int, ...]
    indices: Any


NOTHING = Request((), None)
"""Asks for no mini-batch, and gets None."""


class MiniBatches(Dataset[Any]):
    """The user's dataset and collate function behind one index per mini-batch.

    Args:
        dataset: map-style dataset.
        collate_fn: makes a mini-batch of a list of samples.
        batched: whether a request selects a list of samples; otherwise one, which `collate_fn` converts.
        seed: the run's seed; what is drawn at random while a mini-batch is loaded follows from it and its name.

    A dataset whose attribute `deterministic` is true promises that neither it nor the collate function draws
    anything at random; then nothing is seeded, which takes as long as reading a small mini-batch. `TensorDataset` with
    the collate function of torch is known to be so.
    """

    def __init__(self, dataset: Any, collate_fn: Callable[[Any], Any], *, batched: bool, seed: int) -> None:
        self.dataset = dataset
        self.collate_fn = collate_fn
        self.batched = batched
        self.seed = seed
        self._fetch = getattr(dataset, "__getitems__", None)
        self._deterministic = bool(getattr(dataset, "deterministic", False)) or (
            type(dataset) is TensorDataset and collate_fn in (default_collate, default_convert)
        )

    def __getitem__(self, request: Request) -> Any:
        name, indices = request
        if indices is None:
            return None
        if self._deterministic:
            return self._load(indices)
        with seeded(derived_seed(self.seed, "load", *name)):
            return self._load(indices)

    def _load(self, indices: Any) -> Any:
        if not self.batched:
            return self.collate_fn(self.dataset[indices])
        fetch = self._fetch
        return self.collate_fn(fetch(indices) if fetch else [self.dataset[index] for index in indices])


class Requests:
    """The sampler of the loader: what has been asked for, in order."""

    def __init__(self, requests: Callable[[], Iterator[Request]]) -> None:
        self._requests = requests

    def __iter__(self) -> Iterator[Request]:
        return self._requests()


class _InitializeProcess:
    """Calls the user's `worker_init_fn` where `get_worker_info().dataset` is the user's dataset.

    Args:
        worker_init_fn: the user's function.
    """

    def __init__(self, worker_init_fn: Callable[[int], None] | None) -> None:
        self.worker_init_fn = worker_init_fn

    def __call__(self, process: int) -> None:
        info = get_worker_info()
        if info is not None:
            minibatches = cast("MiniBatches", info.dataset)
            object.__setattr__(info, "dataset", minibatches.dataset)  # plain assignment is refused
        if self.worker_init_fn is not None:
            self.worker_init_fn(process)


class InProcess:
    """Loads the requested mini-batches where they are used: a DataLoader without processes, and without its overhead.

    Args:
        minibatches: what is requested.
        requests: called once for every iterator.
    """

    def __init__(self, minibatches: MiniBatches, requests: Callable[[], Iterator[Request]]) -> None:
        self._minibatches = minibatches
        self._requests = requests

    def __iter__(self) -> Iterator[Any]:
        return map(self._minibatches.__getitem__, self._requests())


def minibatch_loader(
    loader: DataLoader[Any], requests: Callable[[], Iterator[Request]], seed: int
) -> DataLoader[Any] | InProcess:
    """A loader like the user's (processes, pinning, time-outs), that yields the requested mini-batches in order.

    Args:
        loader: the user's loader.
        requests: called once for every iterator of the loader.
        seed: the run's seed.
    """
    minibatches = MiniBatches(loader.dataset, loader.collate_fn, batched=loader.batch_sampler is not None, seed=seed)
    if loader.num_workers == 0 and not loader.pin_memory:
        return InProcess(minibatches, requests)
    processes: dict[str, Any] = {}
    if loader.num_workers > 0:
        processes = {
            "timeout": loader.timeout,
            "worker_init_fn": _InitializeProcess(loader.worker_init_fn),
            "multiprocessing_context": loader.multiprocessing_context,
            "prefetch_factor": loader.prefetch_factor,
            "persistent_workers": loader.persistent_workers,
        }
    return DataLoader(
        minibatches,
        batch_size=None,
        sampler=Requests(requests),
        collate_fn=_as_it_is,
        num_workers=loader.num_workers,
        pin_memory=loader.pin_memory,
        # Otherwise torch's global generator would be drawn from.
        generator=torch.Generator().manual_seed(derived_seed(seed, "processes")),
        **processes,
    )


def _as_it_is(batch: Any) -> Any:
    return batch
