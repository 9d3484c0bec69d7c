"""Buckets: a vector cut into runs of D coordinates, each with its own scales.

With buckets the variance of a quantiser depends on the shape of the data within D coordinates, not on the length of
the vector. The last bucket may be shorter.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

# Coordinates handled at once: small enough for the scratch buffers to stay in the second-level cache.
CHUNK = 65536


class Chunk(NamedTuple):
    """Coordinates start:stop, which lie in the buckets first:last (all whole, or all of one)."""

    start: int
    stop: int
    first: int
    last: int


def num_buckets(length: int, size: int) -> int:
    """Number of buckets of a vector, ceil(length / size)."""
    return -(-length // size)


def chunks(length: int, size: int) -> Iterator[Chunk]:
    """Cut a vector into pieces of about `CHUNK` coordinates along bucket boundaries, or inside one large bucket."""
    if size <= CHUNK:
        whole = length - length % size
        step = CHUNK // size * size
        for start in range(0, whole, step):
            stop = min(start + step, whole)
            yield Chunk(start, stop, start // size, stop // size)
        if whole < length:
            yield Chunk(whole, length, whole // size, whole // size + 1)
        return
    for bucket in range(num_buckets(length, size)):
        end = min((bucket + 1) * size, length)
        for start in range(bucket * size, end, CHUNK):
            yield Chunk(start, min(start + CHUNK, end), bucket, bucket + 1)


def bucket_ranges(vector: Tensor, size: int) -> tuple[Tensor, Tensor]:
    """Smallest and largest coordinate of every bucket.

    Raises:
        ValueError: If a coordinate is not finite.
    """
    length = vector.numel()
    whole = length - length % size
    rows = vector[:whole].view(-1, size)
    lows, highs = [rows.amin(dim=1)], [rows.amax(dim=1)]
    if whole < length:
        lows.append(vector[whole:].amin().view(1))
        highs.append(vector[whole:].amax().view(1))
    low, high = (torch.cat(lows), torch.cat(highs)) if whole < length else (lows[0], highs[0])
    if length and not (math.isfinite(float(low.amin())) and math.isfinite(float(high.amax()))):
        raise ValueError("The vector to quantise holds a value that is not finite; treat the message as lost instead.")
    return low, high


def bucket_sums(values: Tensor, size: int) -> Tensor:
    """Sums of float64 values over every bucket."""
    whole = values.numel() - values.numel() % size
    sums = values[:whole].view(-1, size).sum(dim=1)
    return sums if whole == values.numel() else torch.cat((sums, values[whole:].sum().view(1)))


def bucket_lengths(length: int, size: int, *, device: torch.device) -> Tensor:
    """Number of coordinates of every bucket, as float64."""
    count = num_buckets(length, size)
    lengths = torch.full((count,), float(size), dtype=torch.float64, device=device)
    if count:
        lengths[-1] = length - (count - 1) * size
    return lengths


def safe_factors(magnitude: Tensor, spread: Tensor) -> Tensor | None:
    """Powers of two that bring buckets with extreme ranges into the normal range of their type.

    Without them (high - low) overflows for the largest numbers and 1 / step for the smallest. The factor is exact, and
    1 for every bucket that does not need it; None when no bucket does, which is nearly always.
    """
    largest = torch.finfo(magnitude.dtype).max
    tiny_limit, tiny_factor = (2.0**-64, 2.0**80) if magnitude.dtype == torch.float32 else (2.0**-512, 2.0**560)
    huge, tiny = magnitude > largest / 8, (spread > 0) & (spread < tiny_limit)
    if not bool((huge | tiny).any()):
        return None
    factors = torch.ones_like(magnitude)
    factors[huge] = 2.0**-64
    factors[tiny] = tiny_factor
    return factors


def undo_factors(values: Tensor, factors: Tensor) -> None:
    """Bring scaled values back in place, one factor a row, cut off at the largest number of their type."""
    # A decoded value may lie half a step outside the range of its bucket, and so beyond the largest number.
    limit = torch.finfo(values.dtype).max * factors.clamp(max=1.0)
    values.copy_(torch.minimum(torch.maximum(values, -limit), limit).div_(factors))


def fill_uniform(out: Tensor, generator: torch.Generator) -> Tensor:
    """Fill a vector with uniform numbers from [0, 1), for float32 multiples of 2^-24 as from `torch.rand`.

    The random generator bounds the speed of quantising: two float32 from one 64-bit draw cost two thirds of two draws.
    """
    if out.dtype != torch.float32:
        return out.uniform_(generator=generator)
    words = torch.empty((out.numel() + 1) // 2, dtype=torch.int64, device=out.device)
    words.random_(-(2**63), None, generator=generator)
    return out.copy_(words.view(torch.int32)[: out.numel()] >> 8).mul_(2.0**-24).add_(0.5)


def store_indices(values: Tensor, indices: Tensor) -> None:
    """Write whole non-negative floats as integers, rounding down what is not whole."""
    if indices.dtype == torch.uint8:
        # Vectorised, unlike the direct cast from float to uint8, which takes several times as long.
        values = values.to(torch.int16)
    indices.copy_(values)


def normalised(vector: Tensor) -> Tensor:
    """The vector in float64 with largest magnitude 1, so that squares neither overflow nor vanish."""
    values = vector.detach().double().flatten()
    largest = values.abs().max() if values.numel() else values.new_zeros(())
    return values / largest if largest > 0 else values
