"""Who owns which sample: the interface of a partition, and the homogeneous one."""

from abc import ABC, abstractmethod
from collections.abc import Sized

import numpy as np
import numpy.typing as npt
from torch.utils.data import IterableDataset
from typing_extensions import override

from lightning_async.described import Described

IndexArray = npt.NDArray[np.int64]

# Keeps the draws of a partition apart from every other use of the same run seed.
_STREAM = 0x70617274


class Partition(Described, ABC):
    """Splits a map-style dataset over workers: each sample gets exactly one owner.

    A partition is a pure function of the dataset's size, labels or groups, the number of workers and the seed.
    Two partitions with the same constructor arguments are equal, and a partition can be pickled. Subclasses keep every
    constructor argument as an attribute of the same name.

    Example:
        >>> from torch.utils.data import TensorDataset
        >>> import torch
        >>> [len(shard) for shard in IID().assign(TensorDataset(torch.zeros(10)), num_workers=3, seed=0)]
        [4, 3, 3]
    """

    @abstractmethod
    def assign(self, dataset: Sized, num_workers: int, seed: int) -> list[IndexArray]:
        """Return the shard of every worker.

        Args:
            dataset: map-style dataset with a length.
            num_workers: number of workers n.
            seed: non-negative seed of everything that is drawn.

        Returns:
            n sorted int64 arrays of indices into ``dataset``; array i belongs to worker i. They are disjoint, none is
            empty, and together they are the whole dataset: the partitions of this package drop no sample.

        Raises:
            TypeError: if the dataset has no length or is an ``IterableDataset``.
            ValueError: if there are too few samples (or labels, or groups) for that many workers.
        """


class IID(Partition):
    """Every worker gets a uniformly random part; sizes differ by at most one.

    The homogeneous control of an experiment with heterogeneous data: same shards' sizes, same streams, no skew.

    Example:
        >>> IID()
        IID()
    """

    @override
    def assign(self, dataset: Sized, num_workers: int, seed: int) -> list[IndexArray]:
        size = partitionable_size(dataset, num_workers)
        owners = np.empty(size, dtype=np.int64)
        owners[partition_rng(seed).permutation(size)] = np.arange(size) % num_workers
        return shards_from_owners(owners, num_workers)


def partition_rng(seed: int) -> np.random.Generator:
    """Return the generator that a partition draws from under a run's ``seed``.

    Raises:
        ValueError: if ``seed`` is negative.
    """
    if seed < 0:
        raise ValueError(f"seed={seed}: a partition needs a seed >= 0")
    return np.random.default_rng([_STREAM, seed])


def partitionable_size(dataset: Sized, num_workers: int) -> int:
    """Return the number of samples, after checking that ``num_workers`` non-empty shards can be made of them.

    Raises:
        TypeError: if the dataset is an ``IterableDataset`` or has no length.
        ValueError: if ``num_workers`` is below 1 or above the number of samples.
    """
    name = type(dataset).__name__
    if isinstance(dataset, IterableDataset):
        raise TypeError(
            f"{name} is an IterableDataset: its samples have no index, so they cannot be given to owners. "
            "Use a map-style dataset (__len__ and __getitem__), or train without partition= on one shared stream"
        )
    if not hasattr(dataset, "__len__"):
        raise TypeError(f"{name} has no __len__: a partition needs a map-style dataset of known size")
    if num_workers < 1:
        raise ValueError(f"num_workers={num_workers}: a partition needs at least one worker")
    size = len(dataset)
    if size < num_workers:
        raise ValueError(
            f"{size} samples in {name} cannot give each of {num_workers} workers one: "
            f"use at most {size} workers or more data"
        )
    return size


def shards_from_owners(owners: IndexArray, num_workers: int) -> list[IndexArray]:
    """Turn the owner of every sample into the sorted indices of every worker.

    Example:
        >>> shards_from_owners(np.array([1, 0, 1]), num_workers=2)
        [array([1]), array([0, 2])]
    """
    order = np.argsort(owners, kind="stable").astype(np.int64, copy=False)
    return np.split(order, np.cumsum(np.bincount(owners, minlength=num_workers))[:-1])
