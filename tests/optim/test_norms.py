import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from lightning_async.optim.norms import NORMS, as_matrix, lmo, shape_factor

NAMES = sorted(NORMS)


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=20)
@given(rows=st.integers(1, 7), columns=st.integers(1, 7), seed=st.integers(0, 999))
def test_no_point_of_the_unit_ball_beats_the_dual_norm(name, rows, columns, seed):
    generator = torch.Generator().manual_seed(seed)
    m, u = (torch.randn(rows, columns, generator=generator, dtype=torch.float64) for _ in range(2))
    norm = NORMS[name]
    assert (m * u).sum() <= norm.dual(m) * norm.norm(u) * (1 + 1e-9)


@pytest.mark.parametrize("name", [name for name in NAMES if name != "spectral"])
@settings(max_examples=20)
@given(rows=st.integers(1, 7), columns=st.integers(1, 7), seed=st.integers(0, 999))
def test_a_step_is_the_minimiser_on_the_unit_ball(name, rows, columns, seed):
    m = torch.randn(rows, columns, generator=torch.Generator().manual_seed(seed))
    u = lmo(m, name)
    assert NORMS[name].norm(u) <= 1 + 1e-5
    torch.testing.assert_close((m * u).sum(), -NORMS[name].dual(m), rtol=1e-5, atol=1e-6)


def test_a_row_without_gradient_gets_no_step():
    m = torch.randn(4, 3)
    m[1] = 0
    assert not lmo(m, "row_rms")[1].any()


def test_column_steps_are_row_steps_of_the_transpose():
    m = torch.randn(4, 7)
    torch.testing.assert_close(lmo(m, "column_rms"), lmo(m.T, "row_rms").T)


def test_the_spectral_step_of_a_column_with_its_factor_is_the_rms_step():
    """What justifies computing it in closed form for vectors; near one, not one, because of the iteration."""
    m = torch.randn(9, 1)
    spectral = lmo(m, "spectral", dtype=torch.float32) * shape_factor("spectral", 9, 1)
    rms = lmo(m, "bias_rms")
    torch.testing.assert_close(spectral / spectral.norm(), rms / rms.norm(), rtol=1e-4, atol=1e-5)
    assert 0.85 <= spectral.norm() / rms.norm() <= 1.15


def test_a_convolution_is_its_unfolded_matrix():
    m = torch.randn(6, 2, 3, 3)
    for name in NAMES:
        flat = lmo(m.reshape(6, 18), name, dtype=torch.float32)
        torch.testing.assert_close(lmo(m, name, dtype=torch.float32), flat.reshape(m.shape))


@pytest.mark.parametrize(("shape", "expected"), [((), (1, 1)), ((4,), (4, 1)), ((2, 3), (2, 3)), ((2, 3, 4), (2, 12))])
def test_as_matrix_shapes(shape, expected):
    assert as_matrix(torch.zeros(shape)).shape == expected


def test_an_unknown_norm_names_the_known_ones():
    with pytest.raises(ValueError, match=r"'nuclear'.*spectral.*bias_rms"):
        lmo(torch.zeros(2, 2), "nuclear")
