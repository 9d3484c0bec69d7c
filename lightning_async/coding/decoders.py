"""Decoders: weights on the messages that arrived.

Worker i sends m_i = Q(sum_j A_ij g_j); the server decodes sum over arrived i of weight_i m_i. A decoder maps the set
of workers that arrived to those weights. Sets are boolean arrays (..., workers), so that many can be asked for at once.
The decoder that uses a model of the gradients' correlation is in `lightning_async.coding.set_aware`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from lightning_async.arguments import array, real
from lightning_async.coding.validation import BoolArray, FloatArray, IntArray, as_arrived, as_probabilities


class Decoder(Protocol):
    """Rule for the weights of the messages, given which workers arrived."""

    def weights(self, arrived: BoolArray) -> FloatArray:
        """Weights on the messages m_i, 0 where a worker did not arrive.

        Args:
            arrived: Boolean array (..., workers).

        Returns:
            Weights of the same shape.

        Raises:
            TypeError: If ``arrived`` is not boolean.
            ValueError: If its last dimension is not the number of workers.
        """
        ...


@dataclass(frozen=True)
class FixedDecoder:
    """The same weight for a worker whenever it arrives.

    Attributes:
        fixed: Weights on the messages, one a worker.

    Raises:
        TypeError: If they are not numbers.
        ValueError: If they are not a vector of finite numbers.

    Example:
        >>> FixedDecoder(np.array([1.25, 2.0])).weights(np.array([True, False])).tolist()
        [1.25, 0.0]
    """

    fixed: FloatArray

    def __post_init__(self) -> None:
        fixed = array("fixed", self.fixed)
        if fixed.ndim != 1 or not np.all(np.isfinite(fixed)):
            raise ValueError(f"fixed must be a vector with one finite weight per worker; got {fixed.tolist()}.")
        object.__setattr__(self, "fixed", fixed)

    def weights(self, arrived: BoolArray) -> FloatArray:
        """The fixed weights of those that arrived."""
        return np.where(as_arrived(arrived, len(self.fixed)), self.fixed, 0.0)

    def minimum_mse(self, utility: float) -> FixedDecoder:
        """Shrunk by U / (1 + U): least guaranteed error for the optimal code, biased.

        Args:
            utility: Total utility U of the bit allocation that the code was made for.

        Raises:
            TypeError: If it is not a number.
            ValueError: If it is negative.
        """
        total = real("utility", utility, at_least=0.0, finite=False)
        return FixedDecoder(self.fixed * _shrinking(total))

    def regularized(self, p: FloatArray, strength: float) -> FixedDecoder:
        """The second decoder in the code of Song and Choi: shrunk by lambda S / (1 + lambda S), S = sum (1 - p) / p.

        For the OSGC code it is their weight lambda n / (p_i s_i (1 + lambda S)) on messages of row sum s_i.

        Args:
            p: Straggling probabilities.
            strength: Their lambda, positive and finite; large values approach no shrinking.

        Raises:
            TypeError: If an argument is of the wrong kind.
            ValueError: If ``strength`` is not positive and finite, or ``p`` are no probabilities.
        """
        factor = real("strength", strength, above=0.0, note=" (large values approach no shrinking)")
        straggling = as_probabilities(p)
        if not np.all(straggling > 0):
            return self
        odds = float(((1.0 - straggling) / straggling).sum())
        return FixedDecoder(self.fixed * _shrinking(factor * odds))


@dataclass(frozen=True)
class SurvivorMean:
    """Ignore stragglers: the sum of what arrived, scaled up to all partitions. Biased.

    Attributes:
        assignment: Who holds what, (workers, partitions); the scale is K over the number of copies that arrived.
    """

    assignment: FloatArray

    def weights(self, arrived: BoolArray) -> FloatArray:
        """K over the number of copies that arrived, for each of them."""
        arrived = as_arrived(arrived, len(self.assignment))
        held = (self.assignment != 0).sum(axis=1)
        copies = (arrived * held).sum(axis=-1, keepdims=True)
        result: FloatArray = arrived * (self.assignment.shape[1] / np.maximum(copies, 1))
        return result


@dataclass(frozen=True)
class GroupDecoder:
    """ErasureHead: the workers of a group send the same sum, one representative of a group is enough.

    Attributes:
        groups: Group of every worker, -1 for a worker without partitions.
        scale: Factor of every group's message: 1 as published (biased), 1 / P(anyone arrives) for the unbiased version.
        average: Use the mean of a group's survivors rather than the first of them.
    """

    groups: IntArray
    scale: FloatArray
    average: bool = True

    def weights(self, arrived: BoolArray) -> FloatArray:
        """The scale of a group, shared by its survivors or given to the first."""
        member = self.groups[None, :] == np.arange(len(self.scale))[:, None]
        present = as_arrived(arrived, len(self.groups))[..., None, :] & member
        if self.average:
            share = present / np.maximum(present.sum(axis=-1, keepdims=True), 1)
        else:
            share = present & (np.cumsum(present, axis=-1) == 1)
        result: FloatArray = (share * self.scale[:, None]).sum(axis=-2)
        return result


@dataclass(frozen=True)
class LeastSquaresDecoder:
    """The weights whose combination of the arrived rows is closest to the sum of all partitions, smallest first.

    Exact whenever the arrived rows span the all-ones vector: for exact codes (FRC, cyclic) with few enough stragglers.

    Attributes:
        assignment: The code's rows A, (workers, partitions).
    """

    assignment: FloatArray
    _known: dict[bytes, FloatArray] = field(default_factory=dict, repr=False, compare=False)

    def weights(self, arrived: BoolArray) -> FloatArray:
        """Least-squares weights of every set."""
        sets = as_arrived(arrived, len(self.assignment))
        result = np.empty(sets.shape)
        for row in np.ndindex(sets.shape[:-1]):
            result[row] = self._one(sets[row])
        return result

    def _one(self, arrived: BoolArray) -> FloatArray:
        key = np.packbits(arrived).tobytes()
        if key not in self._known:
            weights = np.zeros(len(self.assignment))
            rows = np.flatnonzero(arrived)
            target = np.ones(self.assignment.shape[1])
            if rows.size:
                weights[rows] = np.linalg.lstsq(self.assignment[rows].T, target, rcond=1e-9)[0]
            if len(self._known) >= 4096:
                self._known.clear()
            self._known[key] = weights
        return self._known[key]


def _shrinking(total: float) -> float:
    """The factor total / (1 + total), also where that is infinite."""
    return 1.0 if np.isinf(total) else total / (1.0 + total)


def combine(messages: Mapping[int, Tensor], weights: FloatArray) -> Tensor:
    """Decode: the weighted sum of the messages that arrived.

    Args:
        messages: Decoded message vectors by worker.
        weights: One weight a worker, from a `Decoder`.

    Raises:
        ValueError: If there is no message, or no weight for one.

    Example:
        >>> combine({1: torch.tensor([1.0, 2.0])}, np.array([0.0, 2.0])).tolist()
        [2.0, 4.0]
    """
    if not messages:
        raise ValueError("No message arrived, so there is nothing to decode; skip the step.")
    if max(messages) >= len(weights):
        raise ValueError(f"There is a message of worker {max(messages)}, but weights of {len(weights)} workers only.")
    workers = iter(messages.items())
    first, vector = next(workers)
    total = vector * float(weights[first])
    for worker, vector in workers:
        total.add_(vector, alpha=float(weights[worker]))
    return total


def gram_of_messages(messages: Mapping[int, Tensor]) -> tuple[IntArray, FloatArray]:
    """Workers and inner products of the messages, in float64; what the correlation estimate learns from.

    Raises:
        ValueError: If there is no message.
    """
    if not messages:
        raise ValueError("No message arrived, so there is nothing to learn from; skip the step.")
    workers = np.array(sorted(messages), dtype=np.int64)
    stacked = torch.stack([messages[int(i)].double() for i in workers])
    products: FloatArray = (stacked @ stacked.T).cpu().numpy()
    return workers, products
