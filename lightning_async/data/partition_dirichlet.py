"""Partitions whose proportions over the workers are Dirichlet: skewed labels, skewed sizes."""

from collections.abc import Sized

import numpy as np
from typing_extensions import override

from lightning_async.arguments import count, real
from lightning_async.data.partition import (
    IndexArray,
    Partition,
    partition_rng,
    partitionable_size,
    shards_from_owners,
)
from lightning_async.data.partition_labels import By, encode_labels, read_labels, resolve_by


class _DirichletSplit(Partition):
    """Splits every class of samples over the workers in proportions drawn from a symmetric Dirichlet law."""

    alpha: float
    min_size: int
    max_tries: int

    def _set_arguments(self, alpha: float, min_size: int, max_tries: int) -> None:
        self.alpha = real("alpha", alpha, above=0.0, note=" (IID() is the limit of large alpha)")
        self.min_size = count("min_size", min_size, note=", as no worker may be without data")
        self.max_tries = count("max_tries", max_tries)

    def _split(self, codes: IndexArray, num_workers: int, seed: int) -> list[IndexArray]:
        size = len(codes)
        if self.min_size * num_workers > size:
            raise ValueError(
                f"{self!r} needs {self.min_size} samples for each of {num_workers} workers "
                f"({self.min_size * num_workers}), the dataset has {size}: "
                f"lower min_size to {size // num_workers} or less, or use fewer workers"
            )
        rng = partition_rng(seed)
        counts = self._draw_counts(np.bincount(codes), num_workers, rng)
        owners = np.empty(size, dtype=np.int64)
        by_class = np.argsort(codes, kind="stable")
        start = 0
        for row in counts:
            stop = start + int(row.sum())
            owners[rng.permutation(by_class[start:stop])] = np.repeat(np.arange(num_workers), row)
            start = stop
        return shards_from_owners(owners, num_workers)

    def _draw_counts(self, class_sizes: IndexArray, num_workers: int, rng: np.random.Generator) -> IndexArray:
        best = np.zeros(num_workers, dtype=np.int64)
        for _ in range(self.max_tries):
            counts = _dirichlet_counts(class_sizes, num_workers, self.alpha, rng)
            sizes = counts.sum(axis=0)
            if sizes.min() >= self.min_size:
                return counts
            if sizes.min() >= best.min():
                best = sizes
        reached = np.sort(best)
        shown = ", ".join(map(str, reached[:8])) + (f", ..., {reached[-1]}" if num_workers > 8 else "")
        raise ValueError(
            f"{type(self).__name__} with alpha={self.alpha} gave some worker fewer than min_size={self.min_size} of "
            f"{class_sizes.sum()} samples in each of {self.max_tries} draws for {num_workers} workers; "
            f"the best draw has shards of {shown} samples. Raise alpha, lower min_size, or use fewer workers"
        )


class Dirichlet(_DirichletSplit):
    """Label skew: each class is split over the workers in proportions drawn from Dirichlet(alpha, ..., alpha).

    For every class c a vector q_c ~ Dir(alpha 1_n) is drawn, and worker i gets the fraction q_{c,i} of the samples of
    the class, to within one sample (Yurochkin et al. 2019, arXiv 1905.12022, section 4; "p_k ~ Dir(beta)" in Li et al.
    2022, arXiv 2102.02079). A fraction has mean 1/n and variance (1/n)(1 - 1/n)/(n alpha + 1).
    Small alpha: each class at few workers; large alpha: equal label proportions everywhere. Sizes of shards differ as
    well. All samples are used.

    A draw that leaves a worker fewer than ``min_size`` samples is drawn anew, as a whole; this conditions the law, but
    hardly when such draws are rare. ``min_size`` = batch size gives each worker at least one full batch.

    Args:
        alpha: concentration, > 0.
        min_size: least number of samples per worker.
        max_tries: number of draws before giving up.
        by: where the label is, see :func:`read_labels`; None finds it.

    Raises:
        TypeError: on arguments of the wrong kind.
        ValueError: on arguments out of range; in ``assign`` if ``min_size`` is not reached.

    Example:
        >>> import torch
        >>> from torch.utils.data import TensorDataset
        >>> data = TensorDataset(torch.zeros(1000, 2), torch.arange(1000) % 10)
        >>> shards = Dirichlet(alpha=0.5, min_size=10).assign(data, num_workers=4, seed=0)
        >>> sum(len(shard) for shard in shards), min(len(shard) for shard in shards) >= 10
        (1000, True)
    """

    def __init__(self, alpha: float, min_size: int = 1, *, max_tries: int = 1000, by: By = None) -> None:
        self._set_arguments(alpha, min_size, max_tries)
        self.by = by
        resolve_by(by)

    @override
    def assign(self, dataset: Sized, num_workers: int, seed: int) -> list[IndexArray]:
        partitionable_size(dataset, num_workers)
        codes, _ = encode_labels(read_labels(dataset, self.by))
        return self._split(codes, num_workers, seed)


class QuantitySkew(_DirichletSplit):
    """Size skew: the sizes of the shards are drawn from Dirichlet(alpha, ..., alpha), the labels stay i.i.d.

    "Quantity skew" of Li et al. 2022 (arXiv 2102.02079): q ~ Dir(alpha 1_n), worker i gets a uniformly
    random part of q_i of all samples. Labels are not looked at. All samples are used.

    Args:
        alpha: concentration, > 0; large means equal sizes.
        min_size: least number of samples per worker; a draw below it is drawn anew.
        max_tries: number of draws before giving up.

    Raises:
        TypeError: on arguments of the wrong kind.
        ValueError: on arguments out of range; in ``assign`` if ``min_size`` is not reached.

    Example:
        >>> sizes = [len(shard) for shard in QuantitySkew(alpha=1.0).assign(range(100), num_workers=3, seed=0)]
        >>> sum(sizes), len(set(sizes)) > 1
        (100, True)
    """

    def __init__(self, alpha: float, min_size: int = 1, *, max_tries: int = 1000) -> None:
        self._set_arguments(alpha, min_size, max_tries)

    @override
    def assign(self, dataset: Sized, num_workers: int, seed: int) -> list[IndexArray]:
        size = partitionable_size(dataset, num_workers)
        return self._split(np.zeros(size, dtype=np.int64), num_workers, seed)


def _dirichlet_counts(class_sizes: IndexArray, num_workers: int, alpha: float, rng: np.random.Generator) -> IndexArray:
    fractions = rng.dirichlet(np.full(num_workers, alpha), size=len(class_sizes))
    if not np.all(np.isfinite(fractions)):
        raise ValueError(f"alpha={alpha}: Dirichlet proportions cannot be drawn in double precision; use 1e-3 to 1e6")
    # One random offset per class makes the rounding unbiased. Plain rounding down would hand every class of a single
    # sample to the last worker.
    edges = np.cumsum(fractions, axis=1) * class_sizes[:, None] + rng.random((len(class_sizes), 1))
    cuts = np.minimum(np.floor(edges).astype(np.int64), class_sizes[:, None])
    cuts[:, -1] = class_sizes
    return np.diff(cuts, axis=1, prepend=0)
