"""a9a: UCI Adult, binarised to 123 features as LIBSVM distributes it."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from recipes.data.files import data_file
from recipes.data.in_memory import Batch, BatchedDataset

__all__ = ["A9A_FEATURES", "A9A_TRAIN_ROWS", "A9ADataset", "A9ASplits", "load_a9a"]

A9A_FEATURES = 123
A9A_TRAIN_ROWS = 32_561


class A9ADataset(BatchedDataset):
    """Multi-hot rows with labels -1 and +1.

    Args:
        feature_ids: ``(rows, 14)`` active features, counted from 1; 0 marks a missing value.
        labels: ``(rows,)`` in {-1, +1}.

    Attributes:
        features: ``(rows, 123)`` ``float32``.
        targets: ``(rows,)`` ``float32`` in {-1, +1}.
    """

    def __init__(self, feature_ids: Tensor, labels: Tensor) -> None:
        multi_hot = torch.zeros(len(feature_ids), A9A_FEATURES + 1)
        multi_hot.scatter_(1, feature_ids.long(), 1.0)
        self.features = multi_hot[:, 1:].contiguous()
        self.targets = labels.float()

    @property
    def signed(self) -> Tensor:
        """Rows times labels, ``(rows, 123)``: all that a loss of the margins y x'w needs. Made anew at each call."""
        return self.features * self.targets[:, None]

    def __len__(self) -> int:
        """Number of rows."""
        return len(self.targets)

    def __getitems__(self, indices: Sequence[int]) -> Batch:
        """Return ``(rows, 123)`` features and ``(rows,)`` labels."""
        rows = torch.as_tensor(indices)
        return self.features.index_select(0, rows), self.targets.index_select(0, rows)


class A9ASplits(NamedTuple):
    """The two splits that LIBSVM calls ``a9a`` and ``a9a.t``."""

    train: A9ADataset
    test: A9ADataset


def load_a9a() -> A9ASplits:
    """Read a9a: 32,561 training and 16,281 test rows.

    Example:
        >>> [len(split) for split in load_a9a()]
        [32561, 16281]
    """
    with np.load(data_file("a9a.npz")) as arrays:
        tensors = {name: torch.from_numpy(arrays[name]) for name in arrays.files}
    return A9ASplits(
        A9ADataset(tensors["train_ids"], tensors["train_labels"]),
        A9ADataset(tensors["test_ids"], tensors["test_labels"]),
    )
