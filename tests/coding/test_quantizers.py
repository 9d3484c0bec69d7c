from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from lightning_async.coding import (
    QSGD,
    NoQuantizer,
    NormScaled,
    Quantizer,
    StochasticRounding,
    SubtractiveDither,
    message_seed,
    packed_size,
    relative_variance,
)

Draws = Callable[..., torch.Tensor]
BUCKETED = [SubtractiveDither, StochasticRounding, QSGD]
QUANTIZERS: list[Quantizer] = [
    SubtractiveDither(8),
    SubtractiveDither(8, symmetric=True),
    StochasticRounding(8),
    StochasticRounding(8, symmetric=True),
    QSGD(8),
    NormScaled(),
    NoQuantizer(),
]
IDS = ["dither", "dither-symmetric", "rounding", "rounding-symmetric", "qsgd", "norm", "none"]
every_quantizer = pytest.mark.parametrize("quantizer", QUANTIZERS, ids=IDS)

ORDINARY = torch.tensor([0.3, -1.2, 2.5, 0.0, -0.7, 0.05, 1.9, -2.0])
VECTORS = {
    "ordinary": ORDINARY,
    "sparse": torch.tensor([0.0, 0.0, 0.0, 0.0, 0.0, 3.0, 0.0, 0.0]),
    "constant": torch.full((8,), 0.7),
    "zero": torch.zeros(8),
    "huge": ORDINARY * 1e37,
    "largest": torch.tensor([3.4e38, -3.4e38, 1e38, 0.0, 2e38, -1e38, 3e38, 1.0]),
    "tiny": ORDINARY * 1e-36,
    "denormal": torch.tensor([1e-44, 0.0, 3e-45, 1.2e-43, -1e-44, 0.0, 0.0, 5e-44]),
    "offset": 10.0 + ORDINARY,
    "one element": torch.tensor([-0.8]),
    "empty": torch.zeros(0),
}
every_vector = pytest.mark.parametrize("vector", VECTORS.values(), ids=VECTORS.keys())


@every_vector
@every_quantizer
@pytest.mark.parametrize("bits", [2, 4])
def test_the_mean_over_seeds_is_the_vector(quantizer: Quantizer, vector: torch.Tensor, bits: int, draws: Draws) -> None:
    if isinstance(quantizer, NormScaled) and vector is VECTORS["largest"]:
        pytest.skip("the norm, and so what a coordinate may decode to, is beyond the largest float32")
    sample = draws(quantizer, vector, bits, 16_000 if isinstance(quantizer, NormScaled) else 4000).double()
    error = (sample.mean(dim=0) - vector.double()).abs()
    standard_error = (sample - sample.mean(dim=0)).square().mean(dim=0).sqrt() / len(sample) ** 0.5
    rounding = 1e-6 * (vector.double().abs().max() if vector.numel() else 0.0) + 1e-45
    if vector.numel() and vector.abs().max() > 1e38:
        # What lies beyond the largest number of the type is cut off there, at most half a step of the range.
        rounding = rounding + (vector.double().abs() > 1.7e38) * 3e38
    assert bool((error <= 4 * standard_error + rounding).all())


@every_vector
@every_quantizer
@pytest.mark.parametrize("bits", [2, 5])
def test_the_mean_squared_error_is_the_exact_variance(
    quantizer: Quantizer, vector: torch.Tensor, bits: int, draws: Draws
) -> None:
    if vector.numel() and (vector.abs().max() > 1e38 or 0 < vector.abs().max() < 1e-40):
        pytest.skip("the limits of the float type, not the quantizer, set the error")
    scale = float(vector.double().abs().max()) if vector.numel() and vector.abs().max() > 0 else 1.0
    sample = draws(quantizer, vector, bits, 16_000 if isinstance(quantizer, NormScaled) else 4000).double() / scale
    target = vector.double() / scale
    errors = (sample - target).square().sum(dim=1)
    expected = quantizer.relative_variance(vector, bits) * float(target.square().sum())
    standard_error = float(errors.std()) / len(errors) ** 0.5
    assert abs(float(errors.mean()) - expected) <= 4 * standard_error + 1e-6 * expected + 1e-12


@every_vector
@every_quantizer
@pytest.mark.parametrize("bits", [2, 8, 16])
def test_nothing_becomes_infinite_or_nan(quantizer: Quantizer, vector: torch.Tensor, bits: int) -> None:
    for seed in range(20):
        assert bool(torch.isfinite(quantizer.decode(quantizer.encode(vector, bits, seed=seed))).all())
    assert quantizer.kappa(vector) < float("inf")


@every_vector
@every_quantizer
@pytest.mark.parametrize("bits", range(2, 9))
def test_the_bound_by_crest_factor_holds(quantizer: Quantizer, vector: torch.Tensor, bits: int) -> None:
    bound = float(relative_variance(bits, quantizer.kappa(vector), quantizer.name))
    assert quantizer.relative_variance(vector, bits) <= bound * (1 + 1e-9)


@pytest.mark.parametrize("bits", range(1, 7))
def test_variances_are_the_reference_values(quantizer_reference: dict[str, Any], bits: int) -> None:
    y = torch.tensor(quantizer_reference["y"], dtype=torch.float64)
    cases = {
        "sr_minmax": StochasticRounding(),
        "sr_inf": StochasticRounding(symmetric=True),
        "dither_minmax": SubtractiveDither(),
        "dither_inf": SubtractiveDither(symmetric=True),
    }
    if bits >= 2:
        cases["qsgd_inf"] = QSGD()
    for name, quantizer in cases.items():
        expected = quantizer_reference[name][str(bits)]
        assert quantizer.relative_variance(y, bits) == pytest.approx(expected, rel=1e-10), name


def test_crest_factors_are_the_reference_values(quantizer_reference: dict[str, Any]) -> None:
    y = torch.tensor(quantizer_reference["y"], dtype=torch.float64)
    assert SubtractiveDither().kappa(y) == pytest.approx(quantizer_reference["kappa_minmax"], rel=1e-12)
    assert SubtractiveDither(symmetric=True).kappa(y) == pytest.approx(quantizer_reference["kappa_inf"], rel=1e-12)
    assert QSGD().kappa(y) == pytest.approx(quantizer_reference["kappa_inf"], rel=1e-12)


def test_the_crest_factor_of_gaussian_buckets_does_not_grow_with_the_length() -> None:
    generator = torch.Generator().manual_seed(0)
    short = SubtractiveDither(512).kappa(torch.randn(512 * 50, generator=generator))
    long = SubtractiveDither(512).kappa(torch.randn(512 * 2000, generator=generator))
    assert short == pytest.approx(9.4, abs=0.4)
    assert long == pytest.approx(9.4, abs=0.4)


@pytest.mark.parametrize("make", BUCKETED)
@pytest.mark.parametrize("bits", [2, 3, 4, 7, 8, 9, 16])
@pytest.mark.parametrize("length", [0, 1, 511, 512, 513, 1000, 70_001])
def test_bytes_on_the_wire_are_packed_indices_and_scales(make: type[Quantizer], bits: int, length: int) -> None:
    message = make().encode(torch.randn(length), bits, seed=0)
    scales_per_bucket = 1 if make is QSGD else 2
    assert message.num_bytes == packed_size(length, bits) + 4 * scales_per_bucket * -(-length // 512)


@pytest.mark.parametrize("make", BUCKETED)
@pytest.mark.parametrize("bucket", [1, 3, 8, 512, 65_536, 65_537, 1_000_000])
def test_every_bucket_size_decodes_within_one_step(make: Any, bucket: int) -> None:
    vector = torch.randn(140_001, generator=torch.Generator().manual_seed(1))
    quantizer = make(bucket)
    decoded = quantizer.decode(quantizer.encode(vector, 8, seed=4))
    largest_step = 2 * float(vector.abs().max()) / 127
    assert float((decoded - vector).abs().max()) <= largest_step


@pytest.mark.parametrize("bits", range(2, 17))
@every_quantizer
def test_more_bits_never_decode_outside_one_step(quantizer: Quantizer, bits: int) -> None:
    vector = ORDINARY.repeat(10)
    decoded = quantizer.decode(quantizer.encode(vector, bits, seed=2))
    range_width = 2 * float(vector.norm()) if isinstance(quantizer, NormScaled) else 5.0
    assert float((decoded - vector).abs().max()) <= range_width / (2 ** (bits - 1) - 1) * 1.0001 + 1e-6


@every_quantizer
def test_the_same_seed_gives_the_same_message(quantizer: Quantizer) -> None:
    first, second = (quantizer.encode(ORDINARY, 3, seed=11) for _ in range(2))
    assert torch.equal(first.payload, second.payload)


def test_dithers_of_two_workers_are_uncorrelated() -> None:
    vector = torch.linspace(-1.0, 1.0, 50_000)
    quantizer = SubtractiveDither()
    errors = [
        quantizer.decode(quantizer.encode(vector, 3, seed=message_seed(0, 7, worker))) - vector for worker in (0, 1)
    ]
    correlation = float(torch.corrcoef(torch.stack(errors))[0, 1])
    assert abs(correlation) < 4 / 50_000**0.5


def test_dither_error_does_not_depend_on_the_vector() -> None:
    quantizer = SubtractiveDither(512)
    vector = torch.randn(512 * 400, generator=torch.Generator().manual_seed(3))
    error = quantizer.decode(quantizer.encode(vector, 2, seed=5)) - vector
    correlation = float(torch.corrcoef(torch.stack((error, vector)))[0, 1])
    assert abs(correlation) < 4 / vector.numel() ** 0.5


@pytest.mark.parametrize("quantizer", [QSGD(8), NormScaled()])
def test_sign_magnitude_keeps_zeros(quantizer: Quantizer) -> None:
    vector = torch.zeros(1000)
    vector[::10] = torch.randn(100)
    for seed in range(20):
        decoded = quantizer.decode(quantizer.encode(vector, 2, seed=seed))
        assert bool((decoded[vector == 0] == 0).all())


def test_half_precision_is_quantised_as_float32_and_double_as_double() -> None:
    for quantizer in QUANTIZERS:
        assert quantizer.decode(quantizer.encode(ORDINARY.bfloat16(), 4, seed=0)).dtype == torch.float32
        assert quantizer.decode(quantizer.encode(ORDINARY.double(), 4, seed=0)).dtype == torch.float64


@every_quantizer
@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
def test_values_that_are_not_finite_are_refused(quantizer: Quantizer, bad: float) -> None:
    vector = ORDINARY.repeat(3)
    vector[13] = bad
    with pytest.raises(ValueError, match="not finite"):
        quantizer.encode(vector, 4, seed=0)


def test_one_bit_is_refused_by_quantisers_that_need_the_sign() -> None:
    for quantizer in (QSGD(), NormScaled()):
        with pytest.raises(ValueError, match=r"bits must be from 2 to 16 for (QSGD|NormScaled), got 1"):
            quantizer.encode(ORDINARY, 1, seed=0)


def test_a_matrix_is_refused() -> None:
    with pytest.raises(ValueError, match="Only float vectors"):
        SubtractiveDither().encode(torch.ones(2, 2), 4, seed=0)
