"""How a direction and a method's step size reach the optimizer."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from lightning_async.methods import ASGD, DelayAdaptiveASGD, Gradient
from lightning_async.methods.apply import optimizer_step, scaling, set_gradients, step_scaling
from lightning_async.simulation import Job, Step

STALE = Step(index=8, time=1.0, jobs=(Job(worker=0, version=0, number=0),))


class TwoTracks(torch.optim.SGD):
    second: Gradient | None = None

    def set_second_gradient(self, gradient: Gradient) -> None:
        self.second = gradient


def parameters() -> list[Tensor]:
    return [torch.zeros(2), torch.zeros(3)]


def test_a_pair_goes_to_the_two_tracks() -> None:
    first, second = [torch.ones(2), torch.ones(3)], [torch.zeros(2), None]
    ps = parameters()
    optimizer = TwoTracks(ps, lr=1.0)
    set_gradients(ps, (first, second), optimizer)
    assert [p.grad for p in ps] == first
    assert optimizer.second is second


@pytest.mark.parametrize("gradient", [(torch.ones(2), torch.ones(3)), (None, torch.ones(3))])
def test_a_gradient_for_two_parameters_is_not_a_pair_of_gradients(gradient: tuple[Tensor | None, Tensor]) -> None:
    ps = parameters()
    set_gradients(ps, gradient, torch.optim.SGD(ps, lr=1.0))
    assert all(p.grad is g for p, g in zip(ps, gradient, strict=True))


def test_a_pair_needs_an_optimizer_with_two_tracks() -> None:
    ps = parameters()
    with pytest.raises(TypeError, match="SGD has no set_second_gradient; use TwoTrackAdam"):
        set_gradients(ps, ([None, None], [None, None]), torch.optim.SGD(ps, lr=1.0))


def test_a_direction_has_one_entry_per_parameter() -> None:
    ps = parameters()
    with pytest.raises(ValueError, match="1 entries for 2 parameters"):
        set_gradients(ps, [torch.ones(2)], torch.optim.SGD(ps, lr=1.0))


def test_step_size_and_momentum_are_restored_even_if_the_step_fails() -> None:
    ps = parameters()
    groups = [{"params": ps[:1], "lr": 0.5}, {"params": ps[1:], "momentum": 0.25}]
    optimizer = torch.optim.SGD(groups, lr=0.1, momentum=0.9)
    seen = []

    def fail() -> None:
        seen.extend((group["lr"], group["momentum"]) for group in optimizer.param_groups)
        raise ArithmeticError

    with pytest.raises(ArithmeticError), step_scaling(optimizer, multiplier=0.5, momentum=0.0):
        fail()
    assert seen == [(0.25, 0.0), (0.05, 0.0)]
    assert [(group["lr"], group["momentum"]) for group in optimizer.param_groups] == [(0.5, 0.9), (0.1, 0.25)]


def test_a_momentum_is_refused_by_an_optimizer_that_has_none() -> None:
    optimizer = torch.optim.Adam(parameters())
    with pytest.raises(ValueError, match="Adam has none"), step_scaling(optimizer, 1.0, momentum=0.5):
        pass


def test_a_method_that_says_nothing_leaves_the_optimizer_alone() -> None:
    assert scaling(torch.optim.SGD(parameters(), lr=0.1), ASGD(), STALE) is None


def test_one_step_is_made_at_the_size_that_the_method_says() -> None:
    p = torch.zeros(1)
    p.grad = torch.ones(1)
    optimizer = torch.optim.SGD([p], lr=1.0)
    optimizer_step(optimizer, DelayAdaptiveASGD(concurrency=2), STALE)
    assert p.item() == -2 / 8
    assert optimizer.param_groups[0]["lr"] == 1.0
    optimizer_step(optimizer, ASGD(), STALE)
    assert p.item() == -2 / 8 - 1.0
