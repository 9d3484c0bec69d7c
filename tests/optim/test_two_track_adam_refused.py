"""What `TwoTrackAdam` refuses, and when: hyperparameters, second gradients and states."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from lightning_async.optim.two_track_adam import TwoTrackAdam

NAN, INF = float("nan"), float("inf")
REFUSED = [
    ({"lr": -1.0}, ValueError, "lr must be a finite number of at least 0, got -1.0"),
    ({"lr": NAN}, ValueError, "lr must be .* got nan"),
    ({"lr": INF}, ValueError, "lr must be .* got inf"),
    ({"lr": True}, TypeError, "lr must be .* got True"),
    ({"lr": "a"}, TypeError, "lr must be .* got 'a'"),
    ({"eps": -1e-8}, ValueError, "eps must be .* at least 0"),
    ({"weight_decay": INF}, ValueError, "weight_decay must be .* got inf"),
    ({"betas": (0.9, 1.0)}, ValueError, r"betas\[1\] must be a number in \[0, 1\), got 1.0"),
    ({"betas": (0.9,)}, ValueError, r"betas must be two numbers, .* got \(0.9,\)"),
    ({"betas": (0.9, 0.99, 0.999)}, ValueError, "betas must be two numbers"),
    ({"betas": 0.9}, TypeError, "betas must be a sequence of numbers, got 0.9"),
    ({"clip_ratio": 0.0}, ValueError, "clip_ratio must be a number above 0, or None for no limit, got 0.0"),
    ({"clip_ratio": -1.0}, ValueError, "clip_ratio must be"),
]


def optimizer_of_three(**options: Any) -> TwoTrackAdam:
    return TwoTrackAdam([nn.Parameter(torch.zeros(3))], **options)


@pytest.mark.parametrize(("options", "error", "message"), REFUSED)
def test_hyperparameters_out_of_range(options: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        optimizer_of_three(**options)


@pytest.mark.parametrize(("options", "error", "message"), REFUSED)
def test_hyperparameters_of_a_group_out_of_range(options: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        TwoTrackAdam([{"params": [nn.Parameter(torch.zeros(3))], **options}])


def test_numbers_of_numpy_become_plain_ones() -> None:
    (group,) = optimizer_of_three(lr=np.float32(0.5), betas=[np.float64(0.5), 0]).param_groups
    assert (type(group["lr"]), group["lr"], group["betas"]) == (float, 0.5, (0.5, 0.0))
    assert [type(beta) for beta in group["betas"]] == [float, float]


@pytest.mark.parametrize(
    ("gradient", "error", "message"),
    [
        ([None, None], ValueError, "2 entries for 1 parameters"),
        ([torch.ones(2)], ValueError, r"shape \(2,\), its parameter \(3,\)"),
        ([torch.ones(3, device="meta")], ValueError, "on meta, its parameter on cpu"),
        (torch.ones(1, 3), TypeError, "a sequence with one tensor, or None, for each parameter, got a Tensor"),
        (iter([torch.ones(3)]), TypeError, "got a list_iterator"),
        ([np.ones(3)], TypeError, "Entry 0 .* must be a dense tensor, or None, got a ndarray"),
        ([torch.ones(3).to_sparse()], TypeError, "must be a dense tensor, or None, got a torch.sparse_coo tensor"),
        ([torch.ones(3, dtype=torch.complex64)], TypeError, "is torch.complex64, but its parameter is torch.float32"),
    ],
)
def test_second_gradients_that_do_not_fit(gradient: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        optimizer_of_three().set_second_gradient(gradient)


def test_new_parameters_while_a_second_gradient_waits() -> None:
    optimizer = optimizer_of_three()
    optimizer.set_second_gradient([torch.ones(3)])
    with pytest.raises(RuntimeError, match=r"call step\(\) before add_param_group"):
        optimizer.add_param_group({"params": [nn.Parameter(torch.zeros(2))]})


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        (torch.optim.AdamW, {"amsgrad": True}, "amsgrad=True"),
        (torch.optim.AdamW, {"maximize": True}, "maximize=True"),
        (torch.optim.Adam, {"weight_decay": 0.1}, "another optimizer"),
        (torch.optim.SGD, {}, "TwoTrackAdam or a torch.optim.AdamW; .* dampening, .* momentum, nesterov"),
        (torch.optim.NAdam, {}, "another optimizer, .* momentum_decay"),
        (torch.optim.RAdam, {}, "another optimizer"),
        (torch.optim.Adagrad, {}, "another optimizer, .* lr_decay"),
    ],
)
def test_states_that_cannot_be_continued(kind: Any, options: dict[str, Any], message: str) -> None:
    state = kind([nn.Parameter(torch.zeros(3))], **options).state_dict()
    with pytest.raises(ValueError, match=message):
        optimizer_of_three().load_state_dict(state)
