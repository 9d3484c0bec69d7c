"""Natural ownership: writers, roles, devices, hospitals."""

import heapq
from collections.abc import Sized

import numpy as np
from typing_extensions import override

from lightning_async.data.partition import (
    IndexArray,
    Partition,
    partition_rng,
    partitionable_size,
    shards_from_owners,
)
from lightning_async.data.partition_labels import By, encode_labels, read_labels, resolve_by


class ByGroup(Partition):
    """Samples of one group stay together, with one worker.

    With as many groups as workers, worker i owns the i-th group in the order of their names (of first appearance, if
    they have no order); the seed changes nothing. With more, groups go to workers largest first, each to the worker
    with the fewest samples so far (longest-processing-time rule, Graham 1969: the largest shard is at most 4/3 of the
    least possible); which worker gets which share is drawn, so that fast workers do not get the largest groups by
    construction. All samples are used.

    Args:
        by: where the group is: an attribute of the dataset with one entry per sample, a column, or a key of the sample
            (a name); a tensor or an element of the sample (a position); or a function of the sample, in a configuration
            ``package.module:function``. Reading it from the samples takes one pass over the dataset, see
            :func:`read_labels`.

    Raises:
        TypeError: if ``by`` is none of these; in ``assign`` if the dataset has no such groups.
        ValueError: in ``assign`` if there are fewer groups than workers.

    Example:
        >>> roles = ["ROMEO", "JULIET", "ROMEO", "NURSE", "ROMEO"]
        >>> [shard.tolist() for shard in ByGroup(by=roles.__getitem__).assign(range(5), num_workers=3, seed=0)]
        [[1], [3], [0, 2, 4]]
    """

    def __init__(self, by: By = "groups") -> None:
        self.by = by
        resolve_by(by, none=False)

    @override
    def assign(self, dataset: Sized, num_workers: int, seed: int) -> list[IndexArray]:
        partitionable_size(dataset, num_workers)
        codes, names = encode_labels(read_labels(dataset, self.by))
        if len(names) < num_workers:
            shown = ", ".join(map(repr, names[:5])) + (", ..." if len(names) > 5 else "")
            raise ValueError(
                f"{self!r} found {len(names)} groups ({shown}) for {num_workers} workers: "
                f"use at most {len(names)} workers, or finer groups"
            )
        if len(names) == num_workers:
            return shards_from_owners(codes, num_workers)
        return shards_from_owners(_balanced(np.bincount(codes), num_workers, seed)[codes], num_workers)


def _balanced(group_sizes: IndexArray, num_workers: int, seed: int) -> IndexArray:
    rng = partition_rng(seed)
    shuffled = rng.permutation(len(group_sizes))
    largest_first = shuffled[np.argsort(-group_sizes[shuffled], kind="stable")]
    heap = [(0, order, int(worker)) for order, worker in enumerate(rng.permutation(num_workers))]
    owner_of_group = np.empty(len(group_sizes), dtype=np.int64)
    for group in largest_first:
        load, order, worker = heap[0]
        owner_of_group[group] = worker
        heapq.heapreplace(heap, (load + int(group_sizes[group]), order, worker))
    return owner_of_group
