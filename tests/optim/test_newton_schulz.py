"""Orthogonalisation on matrices whose singular values are prescribed."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from lightning_async.optim import newton_schulz
from lightning_async.optim.newton_schulz import COEFFICIENTS, native_dtype, orthogonalize
from lightning_async.optim.norms import NORMS, lmo

SHAPES = [(48, 48), (48, 192), (192, 48), (48, 64), (1, 20), (20, 1), (3, 72)]


def _matrix(rows: int, columns: int, values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    left, _ = torch.linalg.qr(torch.randn(rows, len(values), dtype=torch.float64))
    right, _ = torch.linalg.qr(torch.randn(columns, len(values), dtype=torch.float64))
    return (left * values) @ right.T, left, right


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(
    ("name", "smallest", "low", "high"), [("released", 1e-3, 0.85, 1.15), ("quintic", 1e-2, 0.65, 1.25)]
)
def test_every_singular_value_in_range_is_mapped_near_one(shape, name, smallest, low, high):
    values = torch.logspace(0, -7, min(shape), dtype=torch.float64)
    m, left, right = _matrix(*shape, values)
    u = orthogonalize([m.float()], COEFFICIENTS[name], torch.float32)[0].double()
    mapped = ((left.T @ u) * right.T).sum(1)
    large = values >= smallest * values.norm()
    assert low <= mapped[large].amin()
    assert torch.linalg.svdvals(u).amax() <= high
    assert mapped.amax() <= high


@pytest.mark.parametrize("shape", SHAPES)
def test_shared_passes_follow_the_plain_iteration(shape):
    m = torch.randn(shape, dtype=torch.float64)
    for coefficients in COEFFICIENTS.values():
        x = m / m.norm()
        for a, b, c in coefficients:
            gram = x @ x.T
            x = a * x + (b * gram + c * gram @ gram) @ x
        torch.testing.assert_close(orthogonalize([m], coefficients, torch.float64)[0], x, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("shape", [(48, 192), (192, 48), (48, 48)])
def test_bfloat16_maps_the_singular_value_of_rank_one_as_exact_arithmetic_does(shape):
    """Rank one is where the first polynomials cancel most."""
    m, left, right = _matrix(*shape, torch.tensor([1.0], dtype=torch.float64))
    for coefficients in COEFFICIENTS.values():
        exact = left.T @ orthogonalize([m], coefficients, torch.float64)[0] @ right
        rounded = left.T @ orthogonalize([m.float()], coefficients, torch.bfloat16)[0].double() @ right
        torch.testing.assert_close(rounded, exact, rtol=0.03, atol=0)


@pytest.mark.parametrize("shape", SHAPES)
def test_bfloat16_never_overshoots_the_range_by_more_than_its_rounding(shape):
    for values in (torch.logspace(0, -7, min(shape)), torch.ones(min(shape)), torch.ones(1)):
        m, *_ = _matrix(*shape, values.double())
        for coefficients, high in ((COEFFICIENTS["released"], 1.15), (COEFFICIENTS["quintic"], 1.25)):
            u = orthogonalize([m.float()], coefficients, torch.bfloat16)[0]
            assert torch.linalg.svdvals(u.float()).amax() <= high * (1 + 2**-6)


def test_a_batch_gives_what_its_matrices_give_alone():
    matrices = [torch.randn(24, 40) for _ in range(5)]
    together = orthogonalize(matrices, COEFFICIENTS["released"], torch.float32)
    for matrix, u in zip(matrices, together, strict=True):
        alone = orthogonalize([matrix], COEFFICIENTS["released"], torch.float32)[0]
        torch.testing.assert_close(u, alone, rtol=1e-4, atol=1e-5)


@settings(max_examples=25)
@given(exponent=st.floats(-12, 15), name=st.sampled_from(sorted(NORMS)), seed=st.integers(0, 99))
def test_a_step_does_not_depend_on_the_length_of_the_momentum(exponent, name, seed):
    m = torch.randn(6, 9, generator=torch.Generator().manual_seed(seed))
    torch.testing.assert_close(
        lmo(m * 10.0**exponent, name, dtype=torch.float32), lmo(m, name, dtype=torch.float32), rtol=1e-3, atol=1e-3
    )


@pytest.mark.parametrize("name", sorted(NORMS))
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_zero_momentum_gives_no_step(name, dtype):
    assert not lmo(torch.zeros(4, 6), name, dtype=dtype).any()


def test_double_precision_parameters_keep_their_precision():
    assert native_dtype(torch.device("cpu"), torch.float64) == torch.float64


@pytest.mark.parametrize(
    ("capabilities", "expected"),
    [
        ({"amx_bf16": True}, torch.bfloat16),
        ({"avx512_bf16": True}, torch.bfloat16),
        ({"avx512_f": True, "avx512_bf16": False, "amx_bf16": False}, torch.float32),
    ],
)
def test_processors_use_bfloat16_where_it_is_native(monkeypatch, capabilities, expected):
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: capabilities, raising=False)
    monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: True)
    assert native_dtype(torch.device("cpu")) == expected


def test_old_torch_is_asked_for_single_predicates(monkeypatch):
    monkeypatch.delattr(torch.cpu, "get_capabilities", raising=False)
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: False, raising=False)
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: False, raising=False)
    assert newton_schulz.native_dtype(torch.device("cpu")) == torch.float32
