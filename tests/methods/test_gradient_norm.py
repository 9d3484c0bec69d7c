"""Whether a gradient is finite is asked after every job, in the way that is quickest for it: all ways agree."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from lightning_async.methods import Gradient
from lightning_async.methods.clipping import clipping_for
from lightning_async.methods.gradient_norm import finite_check_for, global_norm, norm_for

NAN, INFINITE = float("nan"), float("inf")


@pytest.mark.parametrize("owned", [True, False])
@pytest.mark.parametrize(
    ("tensor", "finite"),
    [
        (torch.tensor([1.0, INFINITE, -INFINITE]), False),
        (torch.tensor([[1.0, NAN]]), False),
        (torch.full((10,), 1e30), True),  # the sum of squares overflows
        (torch.full((10, 2), 3e38), True),  # so does the sum
        (torch.full((10, 2), 1e308, dtype=torch.float64), True),
        (torch.tensor([1.0, NAN], dtype=torch.float64), False),
        (torch.tensor([6e4, 6e4], dtype=torch.float16), True),
        (torch.tensor([NAN], dtype=torch.bfloat16), False),
        (torch.sparse_coo_tensor([[0, 0]], [1.0, INFINITE], (4,), check_invariants=True), False),
        (torch.sparse_coo_tensor([[0, 2]], [1.0, 2.0], (4,), check_invariants=True), True),
        (torch.empty(0), True),
        (torch.tensor(2.0), True),
        (torch.tensor(2.0).expand(5), True),  # cannot be written to
        (torch.ones(4, 5).t(), True),
    ],
)
def test_finite_is_what_every_entry_is(tensor: Tensor, finite: bool, owned: bool) -> None:
    gradient = [None, torch.ones(2), tensor]
    assert math.isfinite(global_norm(gradient)) is finite
    for parameters in ([torch.ones(3), torch.ones(2), tensor], [torch.ones(3), torch.ones(2), torch.ones(4)]):
        check = finite_check_for(parameters, owned=owned)
        assert check(gradient) is finite
        assert check([torch.ones(3), None, None])  # nothing of one gradient is left for the next
        assert check(gradient) is finite


def test_no_gradient_at_all_is_finite() -> None:
    parameters = [torch.ones(3), torch.ones(2)]
    assert global_norm([None, None]) == 0.0
    assert finite_check_for(parameters, owned=True)([None, None])
    assert finite_check_for(parameters, owned=False)([None, None])


def test_looking_leaves_every_bit_as_it_is() -> None:
    gradient = [torch.tensor([-0.0, 1e-45, -1e-40, 3.4e38]), torch.randn(7, 3).t(), torch.tensor(0.1)]
    bits = [g.clone().view(torch.int32) for g in gradient]
    assert finite_check_for(gradient, owned=True)(gradient)
    assert all(torch.equal(g.view(torch.int32), b) for g, b in zip(gradient, bits, strict=True))


def test_what_is_not_owned_is_not_written_to() -> None:
    gradient = [torch.ones(3), torch.ones(2)]
    assert finite_check_for(gradient, owned=False)(gradient)
    assert [g._version for g in gradient] == [0, 0]


@pytest.mark.parametrize(
    "make",
    [
        lambda t: t,
        lambda t: t.double(),
        lambda t: t.bfloat16(),
        lambda t: t.t(),
        lambda t: t.to_sparse(),
    ],
)
def test_the_norm_does_not_depend_on_how_it_is_chosen(make: Callable[[Tensor], Tensor]) -> None:
    tensor = make(torch.arange(12.0).view(3, 4))
    gradient: Gradient = [torch.ones(2), None, tensor]
    expected = math.sqrt(2 + sum(i * i for i in range(12)))
    assert global_norm(gradient) == pytest.approx(expected)
    assert norm_for([torch.ones(2), torch.ones(1), torch.ones(3, 4)])(gradient) == pytest.approx(expected)


def test_norms_whose_squares_vanish_in_single_precision_are_exact() -> None:
    assert global_norm([torch.full((4,), 1e-25)]) == pytest.approx(2e-25)
    assert global_norm([torch.zeros(3), torch.tensor(0.0)]) == 0.0


def test_the_default_dtype_does_not_matter() -> None:
    gradient = [torch.ones(8, dtype=torch.float32), torch.ones(8, dtype=torch.float32)]
    torch.set_default_dtype(torch.float64)
    try:
        assert finite_check_for(gradient, owned=True)(gradient)
        clipped = clipping_for(gradient, 2.0, owned=True)(gradient)
    finally:
        torch.set_default_dtype(torch.float32)
    assert clipped is gradient
    assert global_norm(gradient) == pytest.approx(2.0)
