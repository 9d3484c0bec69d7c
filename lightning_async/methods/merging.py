"""How replicas take in the mean of what was exchanged."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor


class MergeRule(ABC):
    """What becomes of the exchanged coordinates of replicas.

    On these coordinates, y is a replica's value that was sent, z its value now, and mean the average of all y (or
    what an outer optimizer made of it). Arithmetic on 16-bit values is done in 32 bits, and rounded once.
    """

    @abstractmethod
    def __call__(self, rows: Tensor, where: Tensor | None, mean: Tensor, y: Tensor, scratch: Tensor) -> None:
        """Merge m replicas in place.

        Args:
            rows: `(m, d)`, their flat parameters, which hold z.
            where: `(K,)` ascending positions of the exchanged coordinates; None for all of them.
            mean: `(K,)`, in at least 32 bits.
            y: `(m, K)`; may be `rows` itself.
            scratch: `(m, K)` in the dtype of `mean`, to work in; may be `y` itself, but not `rows`.
        """


class Corrected(MergeRule):
    """z + (mean - y): the delay-corrected merge (Maziane et al. 2026, arXiv 2605.20866), which conserves the mean."""

    def __call__(self, rows: Tensor, where: Tensor | None, mean: Tensor, y: Tensor, scratch: Tensor) -> None:
        """Merge m replicas in place."""
        torch.sub(mean, y, out=scratch)
        if rows.dtype != mean.dtype:
            _write(rows, where, scratch.add_(read(rows, where)))
        elif where is None:
            rows.add_(scratch)
        else:  # one pass over the places of a mask instead of two
            rows.scatter_add_(1, _in_all(rows, where), scratch)


class Mixing(MergeRule):
    """(1 - keep) mean + keep z: naive overwriting with keep = 0, else as Streaming DiLoCo (arXiv 2501.18512) mixes.

    Args:
        keep: weight of the replica's own value, in [0, 1].
    """

    def __init__(self, keep: float) -> None:
        self.keep = keep

    def __call__(self, rows: Tensor, where: Tensor | None, mean: Tensor, y: Tensor, scratch: Tensor) -> None:
        """Merge m replicas in place."""
        if self.keep == 0.0:
            _write(rows, where, mean.expand(len(rows), -1))
        else:
            z = read(rows, where).to(mean.dtype)
            # As it interpolates, a value that is the mean already stays what it is, to the last bit.
            _write(rows, where, torch.lerp(mean.expand_as(z), z, self.keep, out=scratch))


def working_dtype(dtype: torch.dtype) -> torch.dtype:
    """In which precision means are taken: at least 32 bits."""
    return torch.promote_types(dtype, torch.float32)


def read(rows: Tensor, where: Tensor | None, out: Tensor | None = None) -> Tensor:
    """Values of m replicas, `(m, K)`: copied to `out`, or the rows themselves where all are read and there is no `out`.

    Args:
        rows: `(m, d)`.
        where: `(K,)` ascending positions; None for all.
        out: `(m, K)`, of the same dtype.
    """
    if where is not None:
        return torch.gather(rows, 1, _in_all(rows, where), out=out)
    return rows if out is None else out.copy_(rows)


def _write(rows: Tensor, where: Tensor | None, values: Tensor) -> None:
    if where is None:
        rows.copy_(values)
    else:
        rows.scatter_(1, _in_all(rows, where), values.to(rows.dtype))


def _in_all(rows: Tensor, where: Tensor) -> Tensor:
    """The same positions in every row, as gather and scatter want them: a view."""
    return where.expand(len(rows), -1)
