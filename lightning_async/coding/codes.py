"""Gradient codes: who computes which partitions, and the proposed optimal codes.

A code is a matrix A, (workers, partitions), whose rows say which combination of partition gradients a worker sends,
with the decoder that belongs to it. The baselines are in `lightning_async.coding.baselines`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from lightning_async.arguments import array, choice, count
from lightning_async.coding.decoders import Decoder, FixedDecoder
from lightning_async.coding.fills import alias_fill, interval_fill, spread_fill
from lightning_async.coding.loads import loads, proportional_loads
from lightning_async.coding.validation import BoolArray, FloatArray, as_arrived, as_probabilities
from lightning_async.coding.variance import QuantizerName, worker_utility

Fill: TypeAlias = Literal["interval", "alias", "spread"]


@dataclass(frozen=True)
class GradientCode:
    """Rows of coefficients and the rule that decodes them.

    Attributes:
        assignment: A, (workers, partitions): worker i sends Q(sum_j A_ij g_j).
        decoder: Weights of the messages, given who arrived.

    Raises:
        TypeError: If the assignment is not an array of numbers.
        ValueError: If the assignment is not a matrix of finite numbers.
    """

    assignment: FloatArray
    decoder: Decoder

    def __post_init__(self) -> None:
        rows = array("assignment", self.assignment)
        if rows.ndim != 2 or not np.all(np.isfinite(rows)):
            raise ValueError(f"assignment must be (workers, partitions) of finite numbers; got shape {rows.shape}.")
        object.__setattr__(self, "assignment", rows)

    @property
    def used(self) -> BoolArray:
        """Workers that hold a partition."""
        used: BoolArray = np.any(self.assignment != 0, axis=1)
        return used

    @property
    def load(self) -> float:
        """How many workers compute a partition, on average."""
        return int(np.count_nonzero(self.assignment)) / int(self.assignment.shape[1])

    def partitions_of(self, arrived: BoolArray) -> npt.NDArray[np.int64]:
        """Partitions that at least one of the arrived workers holds; no other gradient is needed.

        Args:
            arrived: Boolean vector over the workers.

        Raises:
            TypeError: If it is not boolean.
            ValueError: If it is not one vector with an entry per worker.
        """
        mask = as_arrived(arrived, len(self.assignment))
        if mask.ndim != 1:
            raise ValueError(f"arrived must be one set of workers, a vector; got shape {mask.shape}.")
        return np.flatnonzero(np.any(self.assignment[mask] != 0, axis=0))


def effective_code(assignment: FloatArray, weights: FloatArray, p: FloatArray) -> FloatArray:
    """B_ij = (1 - p_i) w_i A_ij; unbiased exactly when every column of B sums to 1."""
    result: FloatArray = ((1.0 - p) * weights)[:, None] * assignment
    return result


def code_from_effective(effective: npt.ArrayLike, p: npt.ArrayLike) -> GradientCode:
    """The code whose rows sum to 1 and whose fixed weights w_i = s_i / (1 - p_i) make B the given matrix.

    Args:
        effective: B, (workers, partitions), finite; rows that are not zero have a sum s_i that is not zero.
        p: Straggling probabilities.

    Raises:
        TypeError: If an argument is of the wrong kind.
        ValueError: If a worker that never arrives (p = 1) has a row that is not zero, or ``effective`` is not as above.
    """
    rows = array("effective", effective)
    if rows.ndim != 2 or not np.all(np.isfinite(rows)):
        raise ValueError(f"effective must be (workers, partitions) of finite numbers; got shape {rows.shape}.")
    straggling = as_probabilities(p, len(rows))
    sums = rows.sum(axis=1)
    used = np.any(rows != 0, axis=1)
    if np.any((straggling == 1.0) & used):
        raise ValueError(f"Worker {int(np.argmax((straggling == 1.0) & used))} never arrives; give it no load.")
    if np.any(used & (sums == 0)):
        raise ValueError(
            f"Row {int(np.argmax(used & (sums == 0)))} of effective sums to 0 without being zero, so that no weight "
            "makes it of a row that sums to 1."
        )
    assignment = rows / np.where(used, sums, 1.0)[:, None]
    weights = np.where(used, sums / np.where(used, 1.0 - straggling, 1.0), 0.0)
    return GradientCode(assignment, FixedDecoder(weights))


def optimal_code(
    z: npt.ArrayLike,
    p: npt.ArrayLike,
    *,
    partitions: int,
    kappa: npt.ArrayLike,
    quantizer: QuantizerName = "dither",
    fill: Fill = "interval",
    cap: float | None = None,
    rotations: int = 4,
) -> GradientCode:
    """The code of least guaranteed error C^2 K^2 / U for a bit allocation, with the fixed unbiased decoder.

    Song and Choi 2026 (arXiv 2605.15890).

    Args:
        z: Bits a coordinate of every worker, from `allocate_bits`.
        p: Straggling probabilities.
        partitions: Number of partitions K.
        kappa: Squared crest factor of the messages.
        quantizer: See `relative_variance`.
        fill: How the loads are laid over the partitions: ``"interval"``, ``"alias"`` or ``"spread"``.
        cap: Largest load of a worker in partitions, see `loads`.
        rotations: Rotated copies of the spread fill.

    Raises:
        TypeError: If an argument is of the wrong kind.
        ValueError: As `loads` and the fill; for an unknown fill.

    Example:
        >>> code = optimal_code([3, 3], [0.5, 0.5], partitions=2, kappa=9.0)
        >>> code.assignment.tolist(), code.decoder.weights(np.array([True, True])).tolist()
        ([[1.0, 0.0], [0.0, 1.0]], [2.0, 2.0])
    """
    _check_fill(fill, rotations)
    sizes = loads(z, p, partitions=partitions, kappa=kappa, quantizer=quantizer, cap=cap)
    return code_from_effective(_lay(sizes, partitions, fill, rotations), p)


def osgc(
    p: npt.ArrayLike,
    *,
    partitions: int,
    fill: Fill = "interval",
    cap: float | None = None,
    rotations: int = 4,
) -> GradientCode:
    """Optimal stochastic gradient code, blind to quantisation: loads in proportion to (1 - p) / p.

    Song and Choi 2025 (arXiv 2510.22539).

    Args:
        p: Straggling probabilities.
        partitions: Number of partitions K.
        fill: How the loads are laid over the partitions: ``"interval"``, ``"alias"`` or ``"spread"``.
        cap: Largest load of a worker in partitions, see `loads`.
        rotations: Rotated copies of the spread fill.

    Raises:
        TypeError: If an argument is of the wrong kind.
        ValueError: As `loads` and the fill; for an unknown fill.

    Example:
        >>> osgc([0.5, 0.8], partitions=5).decoder.weights(np.array([True, True])).round(6).tolist()
        [8.0, 5.0]
    """
    _check_fill(fill, rotations)
    straggling = as_probabilities(p)
    sizes = proportional_loads(worker_utility(straggling, 0.0), partitions, cap=cap)
    return code_from_effective(_lay(sizes, partitions, fill, rotations), straggling)


def _check_fill(fill: Fill, rotations: int) -> None:
    choice("fill", fill, get_args(Fill))
    count("rotations", rotations)


def _lay(sizes: FloatArray, partitions: int, fill: Fill, rotations: int) -> FloatArray:
    if fill == "interval":
        return interval_fill(sizes, partitions)
    if fill == "alias":
        return alias_fill(sizes, partitions)
    return spread_fill(sizes, partitions, rotations)
