"""Sign-magnitude quantisers: QSGD with bucket maxima, and the norm-scaled quantiser of Song and Choi.

Both spend one of the z bits on the sign, which leaves M = 2^(z-1) - 1 magnitudes, and keep zeros exact: the choice for
sparse gradients.
"""

from __future__ import annotations

import math
from abc import abstractmethod

import torch
from torch import Tensor

from lightning_async.arguments import count
from lightning_async.coding.buckets import (
    CHUNK,
    bucket_lengths,
    bucket_ranges,
    bucket_sums,
    chunks,
    fill_uniform,
    normalised,
    safe_factors,
    store_indices,
    undo_factors,
)
from lightning_async.coding.message import Message
from lightning_async.coding.packing import pack_valid, unpack
from lightning_async.coding.quantizers import Quantizer, check_vector


class _SignMagnitude(Quantizer):
    """Stochastic rounding of y / scale to multiples of 1 / M; index = signed multiple + M."""

    min_bits = 2

    @abstractmethod
    def _scales(self, vector: Tensor) -> Tensor:
        """One scale a bucket, at least the largest magnitude in it."""

    @abstractmethod
    def _bucket(self, length: int) -> int:
        """Coordinates of a bucket for a vector of this length."""

    @staticmethod
    def _steps(scales: Tensor, dtype: torch.dtype, levels: int) -> tuple[Tensor, Tensor | None]:
        """Step of every bucket, and the safe factors by which it is scaled."""
        largest = torch.finfo(dtype).max
        magnitude = scales.clamp(max=largest).to(dtype)
        factor = safe_factors(magnitude, magnitude)
        step = scales.double() / levels if factor is None else scales.double() * factor / levels
        return step.to(dtype), factor

    def _encode(self, vector: Tensor, bits: int, seed: int) -> Message:
        levels = 2 ** (bits - 1) - 1
        scales = self._scales(vector)
        step, factor = self._steps(scales, vector.dtype, levels)
        inverse = step.reciprocal().nan_to_num_(posinf=0.0)  # nothing to scale in a bucket without range
        generator = torch.Generator(device=vector.device).manual_seed(seed)
        indices = torch.empty(vector.numel(), dtype=torch.uint8 if bits <= 8 else torch.int32, device=vector.device)
        scratch = torch.empty(2, min(CHUNK, vector.numel()), dtype=vector.dtype, device=vector.device)
        for start, stop, first, last in chunks(vector.numel(), self._bucket(vector.numel())):
            shape = (last - first, -1)
            uniform = fill_uniform(scratch[0, : stop - start], generator).view(shape)
            values, place = vector[start:stop].view(shape), scratch[1, : stop - start].view(shape)
            if factor is not None:
                values = values * factor[first:last, None]
            torch.mul(values, inverse[first:last, None], out=place).add_(uniform).floor_()
            store_indices(place.clamp_(-levels, levels).add_(levels), indices[start:stop].view(shape))
        return Message(pack_valid(indices, bits), scales.view(-1, 1), bits, vector.numel(), seed, vector.dtype)

    def decode(self, message: Message) -> Tensor:
        dtype = message.dtype
        levels = 2 ** (message.bits - 1) - 1
        scales = message.scales[:, 0]
        step, factor = self._steps(scales, dtype, levels)
        indices = unpack(message.payload, message.bits, message.length)
        out = torch.empty(message.length, dtype=dtype, device=scales.device)
        for start, stop, first, last in chunks(message.length, self._bucket(message.length)):
            values = out[start:stop].view((last - first, -1))
            values.copy_(indices[start:stop].view_as(values)).sub_(levels).mul_(step[first:last, None])
            if factor is not None:
                undo_factors(values, factor[first:last, None])
        return out

    def relative_variance(self, vector: Tensor, bits: int) -> float:
        """Sum over coordinates of step^2 f (1 - f), f the place between two levels."""
        check_vector(vector)
        bits = self._whole_bits(bits)
        values = normalised(vector)
        energy = float(values.square().sum())
        if not energy:
            return 0.0
        size = self._bucket(values.numel())
        counts = bucket_lengths(values.numel(), size, device=values.device).long()
        step = self._scales(values).double() / (2 ** (bits - 1) - 1)
        place = values / step.clamp(min=1e-300).repeat_interleave(counts)
        fraction = place - place.floor()
        return float((bucket_sums(fraction * (1 - fraction), size) * step**2).sum()) / energy


class QSGD(_SignMagnitude):
    """QSGD with the largest magnitude of a bucket as its scale; variance <= kappa / (4 (2^(z-1) - 1)^2).

    Alistarh et al. 2017 (arXiv 1610.02132), section 3, with the maximum norm. Zeros stay zero. At least 2 bits.

    Args:
        bucket: Coordinates that share a scale.

    Example:
        >>> quantizer = QSGD()
        >>> quantizer.decode(quantizer.encode(torch.tensor([0.0, 0.0, -2.0]), 2, seed=0)).tolist()
        [0.0, 0.0, -2.0]
    """

    name = "qsgd"

    def __init__(self, bucket: int = 512) -> None:
        self.bucket = count("bucket", bucket)

    def _bucket(self, length: int) -> int:
        return self.bucket

    def _scales(self, vector: Tensor) -> Tensor:
        low, high = bucket_ranges(vector, self.bucket)
        return torch.maximum(high, -low)

    def kappa(self, vector: Tensor) -> float:
        """Sum over buckets of D_b max|y|^2 / ||y||^2."""
        check_vector(vector)
        values = normalised(vector)
        energy = float(values.square().sum())
        lengths = bucket_lengths(values.numel(), self.bucket, device=values.device)
        return float((lengths * self._scales(values) ** 2).sum()) / energy if energy else 0.0


class NormScaled(_SignMagnitude):
    """Sign and magnitude relative to the Euclidean norm of the whole message; variance <= l / (4 (2^(z-1) - 1)^2).

    The quantiser of Song and Choi (arXiv 2605.15890), here as a baseline: its variance grows with the length l. One
    float64 scale a message (the norm of float32 numbers need not be one). At least 2 bits.

    Example:
        >>> quantizer = NormScaled()
        >>> quantizer.encode(torch.ones(16), 4, seed=0).num_bytes
        16
    """

    name = "norm"

    def _bucket(self, length: int) -> int:
        return max(length, 1)

    def _scales(self, vector: Tensor) -> Tensor:
        low, high = bucket_ranges(vector, self._bucket(vector.numel()))
        largest = torch.maximum(high, -low).double()
        if not largest.numel() or not bool(largest > 0):
            return largest
        squares = sum(float((vector[a:b].double() / largest).square().sum()) for a, b in self._pieces(vector.numel()))
        return largest * math.sqrt(squares)

    @staticmethod
    def _pieces(length: int) -> list[tuple[int, int]]:
        return [(start, min(start + CHUNK, length)) for start in range(0, length, CHUNK)]

    def kappa(self, vector: Tensor) -> float:
        """The length of the vector, whatever its values."""
        check_vector(vector)
        return float(vector.numel())
