"""How a replica takes in the mean of what was exchanged."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor


class MergeRule(ABC):
    """What becomes of the exchanged coordinates of one replica.

    On these coordinates, y is the replica's value that was sent, z its value now, and mean the average of all y (or
    what an outer optimizer made of it). Arithmetic on 16-bit values is done in 32 bits, and rounded once.
    """

    @abstractmethod
    def __call__(self, row: Tensor, where: Tensor | None, mean: Tensor, y: Tensor, scratch: Tensor) -> None:
        """Merge one replica in place.

        Args:
            row: the replica's flat parameters, which hold z.
            where: `(K,)` ascending positions of the exchanged coordinates; None for all of them.
            mean: `(K,)`, in at least 32 bits.
            y: `(K,)`; may be `row` itself.
            scratch: `(K,)` like `mean`, to work in.
        """


class Corrected(MergeRule):
    """z + (mean - y): the delay-corrected merge (Maziane et al. 2026, arXiv 2605.20866), which conserves the mean."""

    def __call__(self, row: Tensor, where: Tensor | None, mean: Tensor, y: Tensor, scratch: Tensor) -> None:
        """Merge one replica in place."""
        torch.sub(mean, y, out=scratch)
        if row.dtype == mean.dtype:
            # One pass over the places of a sparse mask: random access is what a merge costs.
            if where is None:
                row.add_(scratch)
            else:
                row.scatter_add_(0, where, scratch)
        else:
            _write(row, where, scratch.add_(_read(row, where)))


class Mixing(MergeRule):
    """(1 - keep) mean + keep z: naive overwriting with keep = 0, else as Streaming DiLoCo (arXiv 2501.18512) mixes.

    Args:
        keep: weight of the replica's own value, in [0, 1].
    """

    def __init__(self, keep: float) -> None:
        self.keep = keep

    def __call__(self, row: Tensor, where: Tensor | None, mean: Tensor, y: Tensor, scratch: Tensor) -> None:
        """Merge one replica in place."""
        if self.keep == 0.0:
            _write(row, where, mean)
        else:
            torch.mul(mean, 1.0 - self.keep, out=scratch)
            _write(row, where, scratch.add_(_read(row, where), alpha=self.keep))


def working_dtype(dtype: torch.dtype) -> torch.dtype:
    """In which precision means are taken: at least 32 bits."""
    return torch.promote_types(dtype, torch.float32)


def _read(row: Tensor, where: Tensor | None) -> Tensor:
    return row if where is None else row.index_select(0, where)


def _write(row: Tensor, where: Tensor | None, values: Tensor) -> None:
    if where is None:
        row.copy_(values)
    else:
        row.index_copy_(0, where, values.to(row.dtype))
