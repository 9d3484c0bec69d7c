"""Packing z-bit indices into bytes.

Whole groups of eight indices are stored as planes of 8, 4, 2 and 1 bits (z in binary), each plane packed by itself;
the up to seven indices that remain are stored bit after bit. So every length takes exactly ceil(z d / 8) bytes, and
packing is a handful of contiguous byte operations.
"""

from __future__ import annotations

import torch
from torch import Tensor

from lightning_async.arguments import count as whole_number
from lightning_async.coding.validation import MAX_BITS


def packed_size(count: int, bits: int) -> int:
    """Bytes that `count` indices of `bits` bits take: ceil(bits * count / 8).

    Raises:
        TypeError: If an argument is not an integer.
        ValueError: If ``bits`` is not in 1..16 or ``count`` is negative.
    """
    bits, count = _check_bits(bits), _check_count(count)
    return (bits * count + 7) // 8


def pack(indices: Tensor, bits: int) -> Tensor:
    """Pack whole numbers below 2^bits into bytes.

    Args:
        indices: Integer vector with values in [0, 2^bits); uint8 is the fastest up to 8 bits.
        bits: Bits an index, 1 to 16.

    Returns:
        uint8 vector of ceil(bits * len(indices) / 8) bytes.

    Raises:
        TypeError: If ``bits`` is not an integer, or ``indices`` not a tensor of integers.
        ValueError: If ``bits`` is not in 1..16, ``indices`` has not one dimension, or a value does not fit.

    Example:
        >>> pack(torch.tensor([1, 2, 3, 4, 5]), 3).tolist()
        [209, 88]
    """
    bits = _check_bits(bits)
    if not isinstance(indices, Tensor) or indices.is_floating_point() or indices.is_complex():
        kind = f"{indices.dtype} tensor" if isinstance(indices, Tensor) else type(indices).__name__
        raise TypeError(f"indices must be an integer vector; got a {kind}.")
    if indices.dim() != 1:
        raise ValueError(f"indices must be an integer vector; got shape {tuple(indices.shape)}.")
    count = indices.numel()
    if count:
        low, high = (int(end) for end in indices.aminmax())
        if low < 0 or high >> bits:
            raise ValueError(f"indices must lie in [0, {2**bits}) to fit {bits} bits; got {low} to {high}.")
    return pack_valid(indices, bits)


def pack_valid(indices: Tensor, bits: int) -> Tensor:
    """`pack` without looking at the values, for callers that have made sure that they fit."""
    count = indices.numel()
    whole = count - count % 8
    out = torch.empty(packed_size(count, bits), dtype=torch.uint8, device=indices.device)
    position = 0
    for shift, width in _planes(bits) if whole else ():
        plane = (indices[:whole] >> shift if shift else indices[:whole]).to(torch.uint8)
        if width < min(8, bits - shift):
            plane = plane & ((1 << width) - 1)
        size = whole * width // 8
        out[position : position + size] = _pack_plane(plane, width)
        position += size
    if whole < count:
        rest = indices[whole:].to("cpu", torch.int64)
        stream = sum(int(value) << (bits * i) for i, value in enumerate(rest.tolist()))
        size = packed_size(count - whole, bits)
        out[position:] = torch.tensor(list(stream.to_bytes(size, "little")), dtype=torch.uint8, device=out.device)
    return out


def unpack(data: Tensor, bits: int, count: int) -> Tensor:
    """Inverse of `pack`: ``count`` indices, uint8 for up to 8 bits and int32 above.

    Raises:
        TypeError: If ``bits`` or ``count`` is not an integer, or ``data`` not a tensor.
        ValueError: If ``bits`` is not in 1..16, ``count`` is negative, or ``data`` has not exactly the bytes of
            ``count`` indices.

    Example:
        >>> unpack(pack(torch.tensor([1, 2, 3, 4, 5]), 3), 3, 5).tolist()
        [1, 2, 3, 4, 5]
    """
    bits, count = _check_bits(bits), _check_count(count)
    if not isinstance(data, Tensor):
        raise TypeError(f"data must be a tensor from `pack`; got a {type(data).__name__}.")
    if data.dtype != torch.uint8 or data.shape != (packed_size(count, bits),):
        raise ValueError(
            f"{count} indices of {bits} bits are {packed_size(count, bits)} uint8 values; "
            f"got {data.numel()} of {data.dtype}, of shape {tuple(data.shape)}."
        )
    whole = count - count % 8
    out = torch.zeros(count, dtype=torch.uint8 if bits <= 8 else torch.int32, device=data.device)
    position = 0
    for shift, width in _planes(bits):
        size = whole * width // 8
        plane = _unpack_plane(data[position : position + size], width)
        if shift == 0:
            out[:whole] = plane
        else:
            out[:whole] |= plane.to(out.dtype) << shift
        position += size
    if whole < count:
        stream = int.from_bytes(bytes(data[position:].tolist()), "little")
        mask = (1 << bits) - 1
        rest = [(stream >> (bits * i)) & mask for i in range(count - whole)]
        out[whole:] = torch.tensor(rest, dtype=out.dtype, device=out.device)
    return out


def _check_bits(bits: int) -> int:
    return whole_number("bits", bits, at_most=MAX_BITS, note=" (a worker with 0 bits sends nothing)")


def _check_count(count: int) -> int:
    return whole_number("count", count, at_least=0)


def _planes(bits: int) -> list[tuple[int, int]]:
    """(shift, width) of the planes of an index, lowest bits first, widths 8, 4, 2, 1."""
    planes, shift = [], 0
    for width in (8, 8, 4, 2, 1):
        if bits - shift >= width:
            planes.append((shift, width))
            shift += width
    return planes


def _pack_plane(values: Tensor, width: int) -> Tensor:
    # Two neighbouring bytes read as one little-endian 16-bit number, halved in width: low | high << width.
    while width < 8:
        if values.storage_offset() % 2 or not values.is_contiguous():
            values = values.clone()
        pairs = values.view(torch.int16)
        values = (pairs | (pairs >> (8 - width))).to(torch.uint8)
        width *= 2
    return values


def _unpack_plane(data: Tensor, width: int) -> Tensor:
    level = 4
    while level >= width:
        halves = torch.stack((data & ((1 << level) - 1), data >> level), dim=1)
        data = halves.view(-1)
        level //= 2
    return data
