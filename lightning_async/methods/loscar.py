"""LOSCAR-SGD: local steps, sparse averaging, and overlap of the two."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, TypeAlias

import numpy as np

from lightning_async.arguments import boolean, choice, probability
from lightning_async.described import describe
from lightning_async.methods.masks import Indices, RandomMask
from lightning_async.methods.merging import Corrected, Mixing
from lightning_async.methods.replica_method import ReplicaMethod

Mask: TypeAlias = Callable[[int, int], Sequence[int]]
"""(round, d) -> the coordinates to exchange; pure, any order, no repetitions."""


class LOSCAR(ReplicaMethod):
    """Local SGD with sparse averaging and overlap (Maziane, Mahran, Maranjyan and Richtarik 2026, arXiv 2605.20866).

    Round r: worker i makes N_i local steps from x_i to y_i, and sends K = p d random coordinates of it, the same for
    all workers. While the message travels it makes Q_i more steps, to z_i. Then, on the coordinates that were
    exchanged, x_i = z_i + (mean_l y_l - y_i), elsewhere x_i = z_i.

    Special cases: dense local SGD (`sparsity=1, overlap=False`), CoCoD-SGD (`sparsity=1`), blocking sparse averaging
    (`overlap=False`), training without communication (`sparsity=0`).

    Args:
        sparsity: p = K / d, the fraction of the coordinates that is sent, in [0, 1]. Coordinates are derived from
            (cluster seed, round), so that only values travel.
        merge: "corrected" as above; "overwrite" x_i = mean_l y_l, which loses the progress made meanwhile; or a number
            alpha in [0, 1], (1 - alpha) mean_l y_l + alpha z_i.
        overlap: whether workers compute while the message travels; otherwise they wait.
        compute_window: logical time for the N_i steps, at least the fastest worker's step.
        mask: `mask(round, d)` gives the coordinates in place of random ones, and `sparsity` is not used. They are
            counted from 0 to d - 1 over the trainable parameters one after the other, each in the order of its memory:
            that of `parameter.flatten()` if it is contiguous, not if it is transposed or in channels_last.

    Raises:
        TypeError: if an argument is of the wrong kind.
        ValueError: if an argument is out of range.

    Example:
        >>> from lightning_async import Link, SimulatedCluster
        >>> from lightning_async.simulation import FixedTimes
        >>> cluster = SimulatedCluster(FixedTimes([1.0, 2.5]), Link(latency=2.0))
        >>> first = next(LOSCAR(sparsity=0.1, compute_window=4.0).rounds(cluster))
        >>> first.before, first.during, first.snapshot, first.end
        ((4, 1), (2, 0), 4.0, 6.0)
    """

    def __init__(
        self,
        sparsity: float,
        merge: Literal["corrected", "overwrite"] | float = "corrected",
        overlap: bool = True,
        *,
        compute_window: float,
        mask: Mask | None = None,
    ) -> None:
        super().__init__(compute_window)
        self.sparsity = probability(
            "sparsity", sparsity, note=", the fraction of the coordinates that is sent: 1 all, 0 none"
        )
        if isinstance(merge, str):
            self.merge: str | float = choice("merge", merge, ("corrected", "overwrite"), note=", or a number in [0, 1]")
            self.rule = Corrected() if merge == "corrected" else Mixing(0.0)
        else:
            self.merge = probability("merge", merge, note=", the weight of a replica's own progress")
            self.rule = Mixing(self.merge)
        if mask is not None and not callable(mask):
            raise TypeError(f"mask must be a function (round, d) -> coordinates, or None, got {mask!r}")
        self.overlap = boolean("overlap", overlap)
        self.mask = mask
        self.silent = mask is None and self.sparsity == 0.0
        self._random = RandomMask(self.sparsity)

    def size(self, round: int, num_coordinates: int, seed: int) -> int:
        """K; of a fraction that is not a whole number of coordinates, one of its neighbours, at random."""
        if self.mask is not None:
            return len(self._given(round, num_coordinates))
        return self._random.size(round, num_coordinates, seed)

    def indices(self, round: int, num_coordinates: int, seed: int) -> Indices | None:
        """The coordinates, uniformly random among all sets of K."""
        if self.mask is not None:
            return self._given(round, num_coordinates)
        return None if self.sparsity == 1.0 else self._random.indices(round, num_coordinates, seed)

    def checked_indices(self, round: int, num_coordinates: int, seed: int, size: int) -> Indices | None:
        """The same; random ones are right as they are made.

        Raises:
            ValueError: if the mask is of another size than before.
        """
        if type(self).indices is not LOSCAR.indices or type(self).size is not LOSCAR.size:
            return super().checked_indices(round, num_coordinates, seed, size)
        indices = self.indices(round, num_coordinates, seed)
        if self.mask is not None and indices is not None and len(indices) != size:
            raise ValueError(
                f"mask({round}, {num_coordinates}) returned {len(indices)} coordinates, but {size} before: it must "
                f"be a function of its arguments alone"
            )
        return indices

    def _given(self, round: int, num_coordinates: int) -> Indices:
        assert self.mask is not None
        coordinates = self.mask(round, num_coordinates)
        try:
            given = np.asarray(coordinates)
        except ValueError as error:  # rows of different lengths
            raise TypeError(
                f"mask({round}, {num_coordinates}) must return a one-dimensional sequence of integers, got "
                f"{describe(coordinates)}"
            ) from error
        if given.ndim != 1 or (given.size and not np.issubdtype(given.dtype, np.integer)):
            raise TypeError(
                f"mask({round}, {num_coordinates}) must return a one-dimensional sequence of integers, got an array of "
                f"shape {given.shape} and dtype {given.dtype}"
            )
        indices = np.unique(given.astype(np.int64))
        if len(indices) < len(given):
            raise ValueError(f"mask({round}, {num_coordinates}) returned a coordinate twice")
        if len(indices) and not 0 <= indices[0] <= indices[-1] < num_coordinates:
            raise ValueError(
                f"mask({round}, {num_coordinates}) must return coordinates from 0 to {num_coordinates - 1}, got "
                f"{indices[0]} to {indices[-1]}"
            )
        return indices
