"""Unbiased quantisers: stochastic rounding and subtractive dither between bucket minimum and maximum, and no quantiser.

A quantiser turns a vector into a `Message` and back. All are unbiased: the mean of ``decode(encode(y))`` over seeds is
y, with E||Q(y) - y||^2 = `Quantizer.relative_variance` times ||y||^2. The sign-magnitude quantisers are in
`lightning_async.coding.sign_magnitude`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

import torch
from torch import Tensor

from lightning_async.arguments import boolean, count, random_seed
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
from lightning_async.coding.validation import MAX_BITS
from lightning_async.coding.variance import QuantizerName


class Quantizer(ABC):
    """An unbiased, independent compressor of vectors to z bits a coordinate.

    Attributes:
        name: The name under which `allocate_bits` and `relative_variance` know its variance.
        min_bits: Fewest bits a coordinate it can work with.
    """

    name: ClassVar[QuantizerName]
    min_bits: ClassVar[int] = 1

    def encode(self, vector: Tensor, bits: int, *, seed: int) -> Message:
        """Quantise a vector (any floating type, one dimension) to ``bits`` bits a coordinate.

        Args:
            vector: What to send. Half precision is quantised as float32.
            bits: Bits a coordinate.
            seed: From `message_seed`: the same seed gives the same message.

        Raises:
            TypeError: If an argument is of the wrong kind.
            ValueError: For values that are not finite, the wrong shape, or bits out of range.
        """
        check_vector(vector)
        bits, seed = self._whole_bits(bits), random_seed(seed)
        working = torch.float64 if vector.dtype == torch.float64 else torch.float32
        return self._encode(vector.detach().to(working).contiguous(), bits, seed)

    @abstractmethod
    def _encode(self, vector: Tensor, bits: int, seed: int) -> Message: ...

    @abstractmethod
    def decode(self, message: Message) -> Tensor:
        """The vector that a message stands for, in float32 (float64 if that was quantised)."""

    @abstractmethod
    def kappa(self, vector: Tensor) -> float:
        """Squared crest factor of a vector in the sense of `relative_variance`: the number that allocation needs.

        Raises:
            TypeError: If it is not a float tensor.
            ValueError: If it is not a vector.
        """

    @abstractmethod
    def relative_variance(self, vector: Tensor, bits: int) -> float:
        """Exact E||Q(y) - y||^2 / ||y||^2 for this vector; 0 for a vector of zeros.

        Raises:
            TypeError: If an argument is of the wrong kind.
            ValueError: If ``vector`` is not one, or bits are out of range.
        """

    def _whole_bits(self, bits: int) -> int:
        return count("bits", bits, at_least=self.min_bits, at_most=MAX_BITS, note=f" for {type(self).__name__}")


def check_vector(vector: Tensor) -> None:
    """Check that something is a float vector, without looking at its values.

    Raises:
        TypeError: If it is not a float tensor.
        ValueError: If it has not one dimension.
    """
    if not isinstance(vector, Tensor) or not vector.is_floating_point():
        kind = f"{vector.dtype} tensor" if isinstance(vector, Tensor) else type(vector).__name__
        raise TypeError(
            f"Only float vectors are quantised; got a {kind}. Convert it with torch.as_tensor(...).float()."
        )
    if vector.dim() != 1:
        raise ValueError(f"Only float vectors are quantised; got shape {tuple(vector.shape)}. Flatten it first.")


class _MinMaxQuantizer(Quantizer):
    """2^z equally spaced levels between the ends of a bucket's range, indices floor(t + u) with uniform u."""

    subtractive: ClassVar[bool]

    def __init__(self, bucket: int = 512, *, symmetric: bool = False) -> None:
        self.bucket = count("bucket", bucket)
        self.symmetric = boolean("symmetric", symmetric)

    def _ranges(self, vector: Tensor) -> tuple[Tensor, Tensor]:
        low, high = bucket_ranges(vector, self.bucket)
        if self.symmetric:
            high = torch.maximum(high, -low)
            low = -high
        return low, high

    def _grid(self, low: Tensor, high: Tensor, bits: int) -> tuple[Tensor, Tensor, Tensor | None]:
        """Step and lower end of every bucket, and the safe factors by which both are scaled."""
        factor = safe_factors(torch.maximum(low.abs(), high.abs()), high - low)
        if factor is not None:
            low, high = low * factor, high * factor
        return (high - low) / (2**bits - 1), low, factor

    def _encode(self, vector: Tensor, bits: int, seed: int) -> Message:
        low, high = self._ranges(vector)
        step, base, factor = self._grid(low, high, bits)
        inverse = step.reciprocal().nan_to_num_(posinf=0.0)  # nothing to scale in a bucket without range
        generator = torch.Generator(device=vector.device).manual_seed(seed)
        indices = torch.empty(vector.numel(), dtype=torch.uint8 if bits <= 8 else torch.int32, device=vector.device)
        scratch = torch.empty(2, min(CHUNK, vector.numel()), dtype=vector.dtype, device=vector.device)
        for start, stop, first, last in chunks(vector.numel(), self.bucket):
            shape = (last - first, -1)
            dither = fill_uniform(scratch[0, : stop - start], generator).view(shape)
            values, place = vector[start:stop].view(shape), scratch[1, : stop - start].view(shape)
            if factor is not None:
                values = values * factor[first:last, None]
            torch.sub(values, base[first:last, None], out=place).mul_(inverse[first:last, None]).add_(dither)
            # The cast truncates, which is floor here; the clamp only catches a last place rounded up to 2^z.
            store_indices(place.clamp_(max=2**bits - 1), indices[start:stop].view(shape))
        scales = high.view(-1, 1) if self.symmetric else torch.stack((low, high), dim=1)
        return Message(pack_valid(indices, bits), scales, bits, vector.numel(), seed, vector.dtype)

    def decode(self, message: Message) -> Tensor:
        high = message.scales[:, -1]
        low = -high if self.symmetric else message.scales[:, 0]
        step, base, factor = self._grid(low, high, message.bits)
        generator = torch.Generator(device=high.device).manual_seed(message.seed)
        indices = unpack(message.payload, message.bits, message.length)
        out = torch.empty(message.length, dtype=high.dtype, device=high.device)
        scratch = torch.empty(min(CHUNK, message.length), dtype=high.dtype, device=high.device)
        for start, stop, first, last in chunks(message.length, self.bucket):
            shape = (last - first, -1)
            values = out[start:stop].view(shape)
            values.copy_(indices[start:stop].view(shape))
            if self.subtractive:
                dither = fill_uniform(scratch[: stop - start], generator).view(shape)
                values.sub_(dither).add_(0.5)
            values.mul_(step[first:last, None]).add_(base[first:last, None])
            if factor is not None:
                undo_factors(values, factor[first:last, None])
        return out

    def kappa(self, vector: Tensor) -> float:
        low, high, energy, lengths = self._in_double(vector)
        return float((lengths * ((high - low) / 2) ** 2).sum()) / energy if energy else 0.0

    def _in_double(self, vector: Tensor) -> tuple[Tensor, Tensor, float, Tensor]:
        check_vector(vector)
        values = normalised(vector)
        low, high = self._ranges(values)
        return low, high, float(values.square().sum()), bucket_lengths(values.numel(), self.bucket, device=low.device)


class SubtractiveDither(_MinMaxQuantizer):
    """Subtractive dither: both ends draw the same u, the sender adds it and the receiver takes it off again.

    The index is that of stochastic rounding; the error is uniform over one step whatever the vector, so the relative
    variance is exactly kappa / (3 (2^z - 1)^2), a third of stochastic rounding's bound. Costs z bits a coordinate and
    two scales a bucket. The seed must differ between workers, or their errors are no longer independent.

    Args:
        bucket: Coordinates that share a range.
        symmetric: Use the range [-max|y|, max|y|]: one scale a bucket, a larger variance.

    Example:
        >>> quantizer = SubtractiveDither()
        >>> message = quantizer.encode(torch.tensor([0.3, -1.2, 2.5]), 4, seed=1)
        >>> message.num_bytes, bool((quantizer.decode(message) - torch.tensor([0.3, -1.2, 2.5])).abs().max() < 0.13)
        (10, True)
    """

    name = "dither"
    subtractive = True

    def relative_variance(self, vector: Tensor, bits: int) -> float:
        """Exactly kappa / (3 (2^z - 1)^2)."""
        return self.kappa(vector) / (3.0 * float(2 ** self._whole_bits(bits) - 1) ** 2)


class StochasticRounding(_MinMaxQuantizer):
    """Stochastic rounding to 2^z levels between a bucket's minimum and maximum; variance <= kappa / (2^z - 1)^2.

    Args:
        bucket: Coordinates that share a range.
        symmetric: Use the range [-max|y|, max|y|]: one scale a bucket.

    Example:
        >>> quantizer = StochasticRounding()
        >>> quantizer.decode(quantizer.encode(torch.tensor([0.0, 1.0, 3.0]), 2, seed=0)).tolist()
        [0.0, 1.0, 3.0]
    """

    name = "rounding"
    subtractive = False

    def relative_variance(self, vector: Tensor, bits: int) -> float:
        """Sum over coordinates of step^2 f (1 - f), f the place between two levels."""
        bits = self._whole_bits(bits)
        low, high, energy, lengths = self._in_double(vector)
        if not energy:
            return 0.0
        counts = lengths.long()
        step = (high - low) / (2**bits - 1)
        place = (normalised(vector) - low.repeat_interleave(counts)) / step.clamp(min=1e-300).repeat_interleave(counts)
        fraction = place - place.floor()
        return float((bucket_sums(fraction * (1 - fraction), self.bucket) * step**2).sum()) / energy


class NoQuantizer(Quantizer):
    """Messages cross the wire as they are; variance 0. The ``bits`` only say which workers are used.

    Example:
        >>> NoQuantizer().decode(NoQuantizer().encode(torch.tensor([0.1, 7.0]), 1, seed=0)).tolist()
        [0.10000000149011612, 7.0]
    """

    name = "none"

    def _encode(self, vector: Tensor, bits: int, seed: int) -> Message:
        bucket_ranges(vector, max(vector.numel(), 1))  # refuses values that are not finite
        payload, width = vector.clone().view(torch.uint8), 8 * vector.element_size()
        return Message(payload, vector.new_empty((0, 1)), width, vector.numel(), seed, vector.dtype)

    def decode(self, message: Message) -> Tensor:
        """The vector itself."""
        return message.payload.view(message.dtype).clone()

    def kappa(self, vector: Tensor) -> float:
        """1, which allocation does not use."""
        check_vector(vector)
        return 1.0

    def relative_variance(self, vector: Tensor, bits: int) -> float:
        """0."""
        check_vector(vector)
        self._whole_bits(bits)
        return 0.0
