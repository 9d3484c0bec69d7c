"""What quantisers and packing refuse, and what they take in a kind that is not the usual one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from lightning_async.coding import (
    QUANTIZERS,
    Quantizer,
    StochasticRounding,
    SubtractiveDither,
    make_quantizer,
    pack,
    packed_size,
    unpack,
)

NAN = float("nan")
every_quantizer = pytest.mark.parametrize("quantizer", [make_quantizer(name) for name in QUANTIZERS], ids=QUANTIZERS)
not_vectors = pytest.mark.parametrize(
    ("vector", "error", "message"),
    [
        (torch.ones(3, 3), ValueError, r"Only float vectors are quantised; got shape \(3, 3\). Flatten"),
        (torch.ones(()), ValueError, "Only float vectors"),
        (torch.ones(3, dtype=torch.int64), TypeError, "got a torch.int64 tensor"),
        (torch.ones(3, dtype=torch.complex64), TypeError, "got a torch.complex64 tensor"),
        (np.ones(3), TypeError, "got a ndarray"),
    ],
)


@not_vectors
@every_quantizer
def test_what_is_not_a_float_vector(quantizer: Quantizer, vector: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        quantizer.encode(vector, 4, seed=0)
    with pytest.raises(error, match=message):
        quantizer.kappa(vector)
    with pytest.raises(error, match=message):
        quantizer.relative_variance(vector, 4)


@every_quantizer
@pytest.mark.parametrize(
    ("bits", "error"), [(0, ValueError), (17, ValueError), (99, ValueError), (4.0, TypeError), (True, TypeError)]
)
def test_bits_that_are_none(quantizer: Quantizer, bits: Any, error: type[Exception]) -> None:
    message = rf"bits must be .*from {quantizer.min_bits} to 16 for {type(quantizer).__name__}, got {bits}"
    with pytest.raises(error, match=message):
        quantizer.encode(torch.ones(9), bits, seed=0)
    with pytest.raises(error, match=message):
        quantizer.relative_variance(torch.ones(9), bits)


@pytest.mark.parametrize("name", ["qsgd", "norm"])
def test_the_variance_of_one_bit_where_that_is_the_sign(name: Any) -> None:
    with pytest.raises(ValueError, match="bits must be from 2 to 16"):
        make_quantizer(name).relative_variance(torch.ones(3), 1)


@every_quantizer
@pytest.mark.parametrize("kind", [np.int64, np.uint8, torch.tensor])
def test_bits_of_numpy_and_torch_are_bits(quantizer: Quantizer, kind: Any) -> None:
    vector = torch.randn(9, generator=torch.Generator().manual_seed(0))
    plain, other = (quantizer.encode(vector, bits, seed=3) for bits in (4, kind(4)))
    assert torch.equal(plain.payload, other.payload)
    assert (type(other.bits), other.num_bytes) == (int, plain.num_bytes)
    assert torch.equal(quantizer.decode(plain), quantizer.decode(other))


@every_quantizer
@pytest.mark.parametrize(("seed", "error"), [(-1, ValueError), (0.5, TypeError), (None, TypeError)])
def test_seeds_that_are_none(quantizer: Quantizer, seed: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match="seed must be an integer"):
        quantizer.encode(torch.ones(9), 4, seed=seed)


@pytest.mark.parametrize("name", ["dither", "rounding", "qsgd"])
def test_crest_factors_of_values_that_are_not_finite(name: Any) -> None:
    with pytest.raises(ValueError, match="not finite"):
        make_quantizer(name).kappa(torch.tensor([NAN, 1.0]))


@pytest.mark.parametrize("kind", [SubtractiveDither, StochasticRounding])
def test_symmetric_is_a_flag(kind: Any) -> None:
    with pytest.raises(TypeError, match="symmetric must be True or False"):
        kind(symmetric="no")


@pytest.mark.parametrize("length", [0, 1, 2, 7, 8, 9, 40])
@pytest.mark.parametrize("dtype", [torch.uint8, torch.int32, torch.int64])
@pytest.mark.parametrize("bits", [1, 3, 8])
def test_columns_of_a_matrix_are_packed(length: int, dtype: torch.dtype, bits: int) -> None:
    indices = torch.randint(0, 2**bits, (length,), generator=torch.Generator().manual_seed(length))
    column = torch.stack([indices, indices], dim=1).to(dtype)[:, 0]
    assert torch.equal(pack(column, bits), pack(indices, bits))


@pytest.mark.parametrize(
    ("indices", "error", "message"),
    [
        (torch.ones(3), TypeError, "got a torch.float32 tensor"),
        ([1, 2], TypeError, "got a list"),
        (torch.ones(2, 2, dtype=torch.uint8), ValueError, r"got shape \(2, 2\)"),
    ],
)
def test_indices_that_are_not_an_integer_vector(indices: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match="indices must be an integer vector; " + message):
        pack(indices, 3)


@pytest.mark.parametrize(
    ("data", "error", "message"),
    [
        (np.zeros(2, dtype=np.uint8), TypeError, "data must be a tensor from `pack`; got a ndarray"),
        (
            torch.zeros(1, 2, dtype=torch.uint8),
            ValueError,
            r"5 indices of 3 bits are 2 uint8 values; .* shape \(1, 2\)",
        ),
    ],
)
def test_bytes_that_are_not_packed(data: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        unpack(data, 3, 5)


def test_sizes_that_are_not_whole_numbers() -> None:
    with pytest.raises(TypeError, match="bits must be an integer from 1 to 16"):
        packed_size(8, 2.5)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="count must be at least 0, got -1"):
        unpack(torch.zeros(0, dtype=torch.uint8), 3, -1)
