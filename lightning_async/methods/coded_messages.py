"""Partition gradients as rows, and the coded, quantised messages that workers make of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from lightning_async.coding import Quantizer, message_seed
from lightning_async.coding.validation import BoolArray
from lightning_async.methods.base import Gradient
from lightning_async.methods.coded_step import CodedStep


class PartitionGradients:
    """Gradients of partitions as rows of one matrix, float64 if one of them is, float32 otherwise.

    Args:
        partitions: the partition of each gradient.
        gradients: one tensor per parameter each; None counts as zero.
    """

    def __init__(self, partitions: Sequence[int], gradients: Sequence[Gradient]) -> None:
        # For every parameter a tensor that shows its shape; None for one that took no part anywhere.
        self._like = [next((g for g in of if g is not None), None) for of in zip(*gradients, strict=True)]
        known = [g for g in self._like if g is not None]
        double = any(g.dtype == torch.float64 for g in known)
        dtype = torch.float64 if double else torch.float32
        device = known[0].device if known else None
        length = sum(g.numel() for g in known)
        self._row = {partition: row for row, partition in enumerate(partitions)}
        self.rows = torch.zeros(len(gradients), length, dtype=dtype, device=device)
        for row, gradient in zip(self.rows, gradients, strict=True):
            for place, g in zip(self._places(row), gradient, strict=True):
                if place is not None and g is not None:
                    place.copy_(g)

    def combine(self, coefficients: Mapping[int, float]) -> Tensor | None:
        """The sum of partitions with their coefficients; None if the gradient of one is missing, or there is none."""
        total: Tensor | None = None
        for partition, coefficient in coefficients.items():
            row = self._row.get(partition)
            if row is None:
                return None
            total = self.rows[row] * coefficient if total is None else total.add_(self.rows[row], alpha=coefficient)
        return total

    def as_gradient(self, vector: Tensor) -> list[Tensor | None]:
        """A vector in the shape and type of the gradients."""
        return [
            None if place is None or like is None else place.to(like.dtype)
            for place, like in zip(self._places(vector), self._like, strict=True)
        ]

    def _places(self, vector: Tensor) -> list[Tensor | None]:
        sizes = [0 if like is None else like.numel() for like in self._like]
        parts = torch.split(vector, sizes)
        return [None if like is None else part.view(like.shape) for part, like in zip(parts, self._like, strict=True)]


class Messages:
    """What arrived in one round.

    A message that contains the gradient of a partition which is missing (it was not finite), or that is not finite
    itself, counts as lost.

    Args:
        step: the round.
        gradients: the gradients of its partitions.
        quantizer: what workers compress with.
    """

    def __init__(self, step: CodedStep, gradients: PartitionGradients, quantizer: Quantizer) -> None:
        self.vectors: dict[int, Tensor] = {}
        """Decoded messages by worker."""
        self.kappa: dict[int, float] = {}
        """Squared crest factor that each worker reports; a message of zeros has none."""
        self.bits = 0
        """Bits on the wire: packed indices and scales."""
        plan = step.plan
        for worker in map(int, np.flatnonzero(step.arrived & plan.sends)):
            vector = gradients.combine(plan.held[worker])
            if vector is None or not torch.isfinite(vector).all():
                continue
            seed = message_seed(step.seed, step.index, worker)
            message = quantizer.encode(vector, int(plan.bits[worker]), seed=seed)
            self.bits += 8 * message.num_bytes
            self.vectors[worker] = quantizer.decode(message)
            kappa = quantizer.kappa(vector)
            if kappa > 0.0:
                self.kappa[worker] = kappa

    def arrived(self, num_workers: int) -> BoolArray:
        """Whose message can be decoded, (n,)."""
        mask = np.zeros(num_workers, dtype=np.bool_)
        mask[list(self.vectors)] = True
        return mask
