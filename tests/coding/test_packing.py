from __future__ import annotations

import math

import pytest
import torch

from lightning_async.coding import pack, packed_size, unpack

LENGTHS = [*range(18), 63, 64, 65, 511, 512, 513, 4095, 70_001]


@pytest.mark.parametrize("bits", range(1, 17))
def test_packing_round_trips_at_every_length(bits: int) -> None:
    generator = torch.Generator().manual_seed(bits)
    for length in LENGTHS:
        indices = torch.randint(0, 2**bits, (length,), generator=generator)
        assert torch.equal(unpack(pack(indices, bits), bits, length).long(), indices), length


@pytest.mark.parametrize("bits", range(1, 17))
def test_packing_takes_exactly_the_bits_rounded_up_to_bytes(bits: int) -> None:
    for length in LENGTHS:
        packed = pack(torch.full((length,), 2**bits - 1), bits)
        assert packed.numel() == packed_size(length, bits) == math.ceil(bits * length / 8)


@pytest.mark.parametrize("bits", range(1, 17))
def test_all_packed_bits_carry_information(bits: int) -> None:
    packed = pack(torch.full((16,), 2**bits - 1), bits)
    assert bool((packed == 255).all())


def test_indices_in_any_integer_type_and_at_any_offset_pack_alike() -> None:
    indices = torch.randint(0, 8, (101,))
    shifted = torch.cat((indices[:1], indices)).to(torch.uint8)[1:]
    assert torch.equal(pack(shifted, 3), pack(indices, 3))


def test_an_index_that_does_not_fit_is_refused() -> None:
    with pytest.raises(ValueError, match=r"must lie in \[0, 8\) to fit 3 bits"):
        pack(torch.tensor([8]), 3)


@pytest.mark.parametrize("bits", [0, 17, -1])
def test_a_number_of_bits_outside_1_to_16_is_refused(bits: int) -> None:
    with pytest.raises(ValueError, match="from 1 to 16"):
        pack(torch.tensor([0]), bits)


def test_unpacking_the_wrong_number_of_bytes_is_refused() -> None:
    with pytest.raises(ValueError, match="5 indices of 3 bits are 2 uint8 values; got 3"):
        unpack(torch.zeros(3, dtype=torch.uint8), 3, 5)
