"""Pathological label skew: a few contiguous pieces of the label-sorted data per worker."""

from collections.abc import Sized

import numpy as np
from typing_extensions import override

from lightning_async.arguments import count
from lightning_async.data.partition import (
    IndexArray,
    Partition,
    partition_rng,
    partitionable_size,
    shards_from_owners,
)
from lightning_async.data.partition_labels import By, encode_labels, read_labels, resolve_by


class Shards(Partition):
    """Sorts by label, cuts into n * per_worker equal pieces, gives every worker ``per_worker`` of them at random.

    The "pathological non-IID" split of FedAvg (McMahan et al. 2017, arXiv 1602.05629, section 3, with 200 pieces and
    two per client). When pieces are no larger than classes, a worker sees at most 2 * per_worker labels, and mostly
    ``per_worker``. Pieces differ by at most one sample; the order within a label is random. All samples are used.

    Args:
        per_worker: pieces per worker, >= 1.
        by: where the label is, see :func:`read_labels`; None finds it.

    Raises:
        TypeError: if ``per_worker`` is not an integer.
        ValueError: if ``per_worker`` < 1; in ``assign`` if there are fewer samples than pieces.

    Example:
        >>> import torch
        >>> from torch.utils.data import TensorDataset
        >>> labels = torch.arange(8) % 4
        >>> shards = Shards(per_worker=1).assign(TensorDataset(torch.zeros(8), labels), num_workers=4, seed=0)
        >>> [len(labels[shard].unique()) for shard in shards]
        [1, 1, 1, 1]
    """

    def __init__(self, per_worker: int, *, by: By = None) -> None:
        self.per_worker = count("per_worker", per_worker, note=": every worker needs a piece of the sorted data")
        self.by = by
        resolve_by(by)

    @override
    def assign(self, dataset: Sized, num_workers: int, seed: int) -> list[IndexArray]:
        size = partitionable_size(dataset, num_workers)
        num_pieces = num_workers * self.per_worker
        if size < num_pieces:
            raise ValueError(
                f"{self!r} cuts the data into {num_workers} * {self.per_worker} = {num_pieces} pieces, "
                f"there are only {size} samples: lower per_worker to {size // num_workers} or use fewer workers"
            )
        codes, _ = encode_labels(read_labels(dataset, self.by))
        rng = partition_rng(seed)
        shuffled = rng.permutation(size)
        by_label = shuffled[np.argsort(codes[shuffled], kind="stable")]
        owners = np.empty(size, dtype=np.int64)
        piece_owners = rng.permutation(np.repeat(np.arange(num_workers), self.per_worker))
        for owner, piece in zip(piece_owners, np.array_split(by_label, num_pieces), strict=True):
            owners[piece] = owner
        return shards_from_owners(owners, num_workers)
