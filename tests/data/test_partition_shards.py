"""Shards of the label-sorted data."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils.data import TensorDataset

from lightning_async.data import Shards


def labelled(labels: np.ndarray | list[int]) -> TensorDataset:
    return TensorDataset(torch.zeros(len(labels), 1), torch.as_tensor(np.asarray(labels)))


@settings(max_examples=60)
@given(
    labels=st.lists(st.integers(0, 9), min_size=60, max_size=200),
    per_worker=st.integers(1, 4),
    num_workers=st.integers(2, 8),
    seed=st.integers(0, 1000),
)
def test_a_worker_owns_at_most_per_worker_contiguous_runs_of_the_sorted_labels(
    labels: list[int], per_worker: int, num_workers: int, seed: int
) -> None:
    """A label that a worker owns only in part is at the edge of a piece, and a piece has two edges."""
    values = np.array(labels)
    totals = np.bincount(values, minlength=10)
    present = np.flatnonzero(totals)
    for shard in Shards(per_worker).assign(labelled(values), num_workers, seed):
        own = np.bincount(values[shard], minlength=10)
        owned = own[present] > 0
        runs = np.count_nonzero(np.diff(owned.astype(int), prepend=0) == 1)
        assert runs <= per_worker
        assert np.count_nonzero((own > 0) & (own < totals)) <= 2 * per_worker


def test_equal_classes_and_one_piece_per_class_give_per_worker_labels_exactly() -> None:
    labels = np.repeat(np.arange(20), 30)
    for seed in range(20):
        for shard in Shards(per_worker=2).assign(labelled(labels), 10, seed):
            assert len(np.unique(labels[shard])) == 2


def test_sizes_differ_by_at_most_one_per_piece() -> None:
    sizes = [len(shard) for shard in Shards(per_worker=3).assign(labelled(np.arange(1000) % 7), 9, seed=0)]
    assert max(sizes) - min(sizes) <= 3


def test_fewer_samples_than_pieces_names_the_largest_per_worker() -> None:
    with pytest.raises(ValueError, match=r"4 \* 6 = 24 pieces, there are only 20 samples: lower per_worker to 5"):
        Shards(per_worker=6).assign(labelled(np.arange(20)), 4, seed=0)


def test_per_worker_below_one_is_refused_at_construction() -> None:
    with pytest.raises(ValueError, match="per_worker must be at least 1"):
        Shards(per_worker=0)
    with pytest.raises(TypeError, match="per_worker must be an integer"):
        Shards(per_worker=1.5)
