"""Which coordinates a round exchanges: uniformly random subsets that every worker can derive for itself."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from lightning_async.simulation.random_blocks import philox

Indices = npt.NDArray[np.int64]

_SIZE = int.from_bytes(b"masksize", "big")
_MASK = int.from_bytes(b"masksubs", "big")
_INT32 = 2**31
_BITMAP_FROM = 1 / 64  # share of the coordinates from which marking them is cheaper than sorting


class RandomMask:
    """A uniformly random set of K of d coordinates, a function of (seed, round), the same for all workers.

    Every coordinate is in the set with probability `sparsity`. K is sparsity * d; if that is not an integer, one of the
    two neighbours, at random, so that its expectation is sparsity * d.

    Args:
        sparsity: fraction p of the coordinates, in [0, 1].
    """

    def __init__(self, sparsity: float) -> None:
        self.sparsity = sparsity

    def size(self, round: int, num_coordinates: int, seed: int) -> int:
        """Number of coordinates K, without drawing them."""
        expected = self.sparsity * num_coordinates
        floor = math.floor(expected)
        if floor == expected:
            return floor
        draw = np.random.Generator(philox(seed, round, _SIZE)).random()
        return min(num_coordinates, floor + bool(draw < expected - floor))

    def indices(self, round: int, num_coordinates: int, seed: int) -> Indices:
        """The coordinates, ascending."""
        size = self.size(round, num_coordinates, seed)
        return random_subset(num_coordinates, size, np.random.Generator(philox(seed, round, _MASK)))


def random_subset(population: int, size: int, generator: np.random.Generator) -> Indices:
    """`size` distinct integers of 0..population - 1, ascending; every subset of that size is equally likely.

    The subset is made of the first `size` distinct values of a stream of independent uniform draws: by symmetry,
    exactly uniform. Draws are made in batches of as many as are missing, so that a batch never has too many. For more
    than half of the population the complement is drawn. Expected work and memory are O(size) for small subsets, up to
    sorting, and never a permutation of the population.

    Args:
        population: number of integers to choose from.
        size: how many to choose, from 0 to `population`.
        generator: source of the draws.
    """
    if 2 * size > population:
        absent = np.ones(population, dtype=np.bool_)
        absent[random_subset(population, population - size, generator)] = False
        return np.flatnonzero(absent)
    if size < population * _BITMAP_FROM:
        dtype = np.int32 if population <= _INT32 else np.int64  # half the bytes to sort
        chosen = np.empty(0, dtype=dtype)
        while len(chosen) < size:
            draws = generator.integers(population, size=size - len(chosen), dtype=dtype)
            chosen = np.sort(np.concatenate([chosen, draws]))
            chosen = chosen[np.concatenate([[True], chosen[1:] != chosen[:-1]])]
        return chosen.astype(np.int64)
    marked = np.zeros(population, dtype=np.bool_)
    missing = size
    while missing:
        marked[generator.integers(population, size=missing)] = True
        missing = size - int(np.count_nonzero(marked))
    return np.flatnonzero(marked)
