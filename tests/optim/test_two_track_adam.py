from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from lightning_async.optim.two_track_adam import TwoTrackAdam


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(7, 9), nn.LayerNorm(9), nn.Tanh(), nn.Linear(9, 3))


def train(model: nn.Module, optimizer: torch.optim.Optimizer, steps: int, start: int = 0) -> None:
    for step in range(start, start + steps):
        generator = torch.Generator().manual_seed(step)
        optimizer.zero_grad()
        model(torch.randn(16, 7, generator=generator)).square().mean().backward()
        optimizer.step()


def equal(first: nn.Module, second: nn.Module) -> bool:
    return all(torch.equal(a, b) for a, b in zip(first.parameters(), second.parameters(), strict=True))


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"lr": 0.05, "weight_decay": 0.3},
        {"betas": (0.5, 0.9), "eps": 1e-4, "weight_decay": 0.0},
        {"betas": (0.0, 0.0)},
    ],
)
def test_an_ordinary_gradient_gives_adamw_bit_for_bit(options: dict[str, Any]) -> None:
    ours, theirs = network(), network()
    train(ours, TwoTrackAdam(ours.parameters(), **options), 60)
    train(theirs, torch.optim.AdamW(theirs.parameters(), **options), 60)
    assert equal(ours, theirs)


def test_groups_and_schedulers_give_adamw_bit_for_bit() -> None:
    models = network(), network()
    for model, kind in zip(models, (TwoTrackAdam, torch.optim.AdamW), strict=True):
        groups = [
            {"params": model[0].parameters(), "lr": 0.02},  # type: ignore[index]
            {"params": [*model[1].parameters(), *model[3].parameters()], "weight_decay": 0.2},  # type: ignore[index]
        ]
        optimizer = kind(groups, lr=0.01)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 30)
        for step in range(30):
            train(model, optimizer, 1, start=step)
            schedule.step()
    assert equal(*models)


def test_the_same_gradient_twice_gives_adamw_bit_for_bit() -> None:
    ours, theirs = network(), network()
    two_track, adamw = TwoTrackAdam(ours.parameters()), torch.optim.AdamW(theirs.parameters())
    generator = torch.Generator().manual_seed(0)
    for _ in range(20):
        gradient = [torch.randn(p.shape, generator=generator) for p in ours.parameters()]
        for model in (ours, theirs):
            for p, g in zip(model.parameters(), gradient, strict=True):
                p.grad = g.clone()
        two_track.set_second_gradient([g.clone() for g in gradient])
        two_track.step()
        adamw.step()
    assert equal(ours, theirs)


def one_parameter(**options: Any) -> tuple[nn.Parameter, TwoTrackAdam]:
    parameter = nn.Parameter(torch.zeros(3))
    return parameter, TwoTrackAdam([parameter], **({"lr": 0.1, "weight_decay": 0.0} | options))


def test_first_and_second_moment_come_from_their_own_gradient() -> None:
    parameter, optimizer = one_parameter(betas=(0.8, 0.5))
    first, second = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([4.0, -5.0, 6.0])
    parameter.grad = first
    optimizer.set_second_gradient([second])
    optimizer.step()
    state = optimizer.state[parameter]
    torch.testing.assert_close(state["exp_avg"], 0.2 * first)
    torch.testing.assert_close(state["exp_avg_sq"], 0.5 * second**2)
    torch.testing.assert_close(parameter.detach(), -0.1 * first / second.abs())


def test_a_second_gradient_is_used_once() -> None:
    parameter, optimizer = one_parameter(betas=(0.0, 0.0))
    parameter.grad = torch.ones(3)
    optimizer.set_second_gradient([torch.full((3,), 2.0)])
    optimizer.step()
    optimizer.step()
    torch.testing.assert_close(optimizer.state[parameter]["exp_avg_sq"], torch.ones(3))


def test_without_a_second_entry_the_second_moment_and_its_correction_stay() -> None:
    parameter, optimizer = one_parameter()
    parameter.grad = torch.ones(3)
    optimizer.step()
    before = optimizer.state[parameter]["exp_avg_sq"].clone()
    parameter.grad = torch.full((3,), 5.0)
    optimizer.set_second_gradient([None])
    optimizer.step()
    state = optimizer.state[parameter]
    assert torch.equal(state["exp_avg_sq"], before)
    assert (float(state["step"]), float(state["second_step"])) == (2.0, 1.0)
    expected = -0.1 - 0.1 * (0.9 * 0.1 + 0.1 * 5.0) / (1 - 0.9**2)
    torch.testing.assert_close(parameter.detach(), torch.full((3,), expected))


def test_before_any_second_gradient_a_parameter_stays_and_is_finite() -> None:
    parameter, optimizer = one_parameter()
    parameter.grad = torch.ones(3)
    optimizer.set_second_gradient([None])
    optimizer.step()
    assert parameter.tolist() == [0.0] * 3


@pytest.mark.parametrize("clip_ratio", [0.3, 1.0])
def test_the_clip_bounds_every_step(clip_ratio: float) -> None:
    parameter, optimizer = one_parameter(clip_ratio=clip_ratio)
    generator = torch.Generator().manual_seed(1)
    for _ in range(50):
        before = parameter.detach().clone()
        parameter.grad = 100 * torch.randn(3, generator=generator)
        optimizer.set_second_gradient([torch.randn(3, generator=generator)])
        optimizer.step()
        assert float((parameter.detach() - before).abs().max()) <= 0.1 * clip_ratio * (1 + 1e-5)


def test_a_clip_that_never_acts_changes_nothing_but_rounding() -> None:
    clipped, free = network(), network()
    train(clipped, TwoTrackAdam(clipped.parameters(), clip_ratio=1e6), 30)
    train(free, TwoTrackAdam(free.parameters()), 30)
    for a, b in zip(clipped.parameters(), free.parameters(), strict=True):
        torch.testing.assert_close(a, b)


def test_a_resumed_run_equals_the_uninterrupted_one() -> None:
    whole, resumed = network(), network()
    train(whole, TwoTrackAdam(whole.parameters(), clip_ratio=1.0), 20)
    first = TwoTrackAdam(resumed.parameters(), clip_ratio=1.0)
    train(resumed, first, 10)
    second = TwoTrackAdam(resumed.parameters(), clip_ratio=1.0)
    second.load_state_dict(copy.deepcopy(first.state_dict()))
    train(resumed, second, 10, start=10)
    assert equal(whole, resumed)


def test_a_run_of_adamw_can_be_continued() -> None:
    whole, continued = network(), network()
    train(whole, torch.optim.AdamW(whole.parameters()), 20)
    first = torch.optim.AdamW(continued.parameters())
    train(continued, first, 10)
    second = TwoTrackAdam(continued.parameters())
    second.load_state_dict(first.state_dict())
    train(continued, second, 10, start=10)
    assert equal(whole, continued)


def test_a_run_of_adam_without_weight_decay_can_be_continued() -> None:
    whole, continued = network(), network()
    train(whole, torch.optim.Adam(whole.parameters()), 20)
    first = torch.optim.Adam(continued.parameters())
    train(continued, first, 10)
    second = TwoTrackAdam(continued.parameters())
    second.load_state_dict(first.state_dict())
    train(continued, second, 10, start=10)
    assert equal(whole, continued)


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda optimizer: pickle.loads(pickle.dumps(optimizer))])
def test_a_copy_takes_the_same_step(copied: Callable[[TwoTrackAdam], TwoTrackAdam]) -> None:
    parameter, optimizer = one_parameter(clip_ratio=1.0)
    parameter.grad = torch.ones(3)
    optimizer.set_second_gradient([torch.full((3,), 2.0)])
    other = copied(optimizer)
    (its_parameter,) = other.param_groups[0]["params"]
    its_parameter.grad = torch.ones(3)
    optimizer.step()
    other.step()
    assert its_parameter is not parameter
    assert torch.equal(its_parameter, parameter)


def complex_pair(kind: type[torch.optim.Optimizer]) -> tuple[nn.Parameter, torch.optim.Optimizer]:
    generator = torch.Generator().manual_seed(7)
    parameter = nn.Parameter(torch.randn(4, dtype=torch.complex64, generator=generator))
    return parameter, kind([parameter], lr=0.05, weight_decay=0.1)  # type: ignore[call-arg]


def test_complex_parameters_give_adamw_bit_for_bit() -> None:
    ours, two_track = complex_pair(TwoTrackAdam)
    theirs, adamw = complex_pair(torch.optim.AdamW)
    generator = torch.Generator().manual_seed(8)
    for _ in range(20):
        gradient = torch.randn(4, dtype=torch.complex64, generator=generator)
        ours.grad, theirs.grad = gradient.clone(), gradient.clone()
        two_track.step()
        adamw.step()
    assert torch.equal(ours, theirs)


def test_a_complex_second_gradient_is_squared_part_by_part() -> None:
    parameter = nn.Parameter(torch.zeros(1, dtype=torch.complex64))
    optimizer = TwoTrackAdam([parameter], lr=0.1, weight_decay=0.0)
    parameter.grad = torch.tensor([1.0 + 1.0j])
    optimizer.set_second_gradient([torch.tensor([2.0 - 4.0j])])
    optimizer.step()
    torch.testing.assert_close(parameter.detach(), torch.tensor([-0.05 - 0.025j]))


def test_parameters_without_gradient_are_left_alone() -> None:
    model = network()
    optimizer = TwoTrackAdam(model.parameters())
    parameters = list(model.parameters())
    before = parameters[0].detach().clone()
    parameters[1].grad = torch.ones_like(parameters[1])
    optimizer.set_second_gradient([torch.ones_like(p) for p in parameters])
    optimizer.step()
    assert torch.equal(parameters[0], before)
    assert parameters[0] not in optimizer.state


def test_a_closure_is_evaluated_with_gradients_and_its_loss_returned() -> None:
    parameter, optimizer = one_parameter()

    def closure() -> float:
        optimizer.zero_grad()
        loss = (parameter - 1).square().sum()
        loss.backward()
        return float(loss.detach())

    assert optimizer.step(closure) == 3.0
    assert bool((parameter > 0).all())
