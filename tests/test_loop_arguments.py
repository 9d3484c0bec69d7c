"""What `simulate` refuses, and what it leaves alone of what it is given."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

from lightning_async import simulate
from lightning_async.methods import ASGD, LocalSGD, Method, MinibatchSGD, RennalaSGD
from lightning_async.simulation import Job, SimulatedCluster, UniformTimes


def arguments(**changes: object) -> dict[str, object]:
    x = torch.ones(2)
    return {
        "method": ASGD(),
        "cluster": SimulatedCluster(UniformTimes(2)),
        "parameters": [x],
        "optimizer": torch.optim.SGD([x], lr=0.1),
        "gradient_fn": lambda job: [x.clone()],
        **changes,
    }


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"method": ASGD}, TypeError, r"such as ASGD\(\)"),
        ({"cluster": UniformTimes(2)}, TypeError, "SimulatedCluster"),
        ({"optimizer": torch.optim.SGD}, TypeError, "has been constructed"),
        ({"parameters": torch.ones(2)}, TypeError, "single tensor"),
        ({"parameters": []}, ValueError, "nothing to train"),
        ({"parameters": [torch.ones(2)]}, ValueError, "which are 1; got 1, of which 0 are among them"),
        ({"max_steps": -1}, ValueError, "max_steps must be at least 0, or None for no limit, got -1"),
        ({"max_time": math.nan}, ValueError, "max_time must be a number of at least 0, or None for no limit, got nan"),
        ({"on_nonfinite": "skip"}, ValueError, "'skip'"),
    ],
)
def test_wrong_arguments_are_refused_before_the_first_step(
    changes: dict[str, object], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        simulate(**arguments(**changes))


@pytest.mark.parametrize("wrong", [torch.ones(1), [], [torch.ones(2), torch.ones(2)]])
def test_a_gradient_that_is_not_one_tensor_per_parameter_is_refused(wrong: object) -> None:
    run = simulate(**arguments(gradient_fn=lambda job: wrong))
    with pytest.raises(ValueError, match="a sequence of one tensor per parameter, 1 in all"):
        next(run)


def _generator(job: Job) -> object:
    return (g for g in [torch.ones(2)])


@pytest.mark.parametrize("method", [ASGD(), RennalaSGD(2), LocalSGD(2.0)], ids=repr)
@pytest.mark.parametrize(
    ("wrong", "error", "message"),
    [
        (lambda job: None, ValueError, "got NoneType"),
        (_generator, ValueError, "got generator"),
        (lambda job: torch.tensor(1.0), ValueError, "got Tensor$"),
        (lambda job: [1.0], TypeError, "got float for parameter 0"),
        (lambda job: [np.ones(2, np.float32)], TypeError, "got ndarray for parameter 0; convert it"),
        (lambda job: [torch.ones(1)], ValueError, r"parameter 0 a tensor of its shape \(2,\).*got shape \(1,\)"),
        (lambda job: [torch.ones(2, dtype=torch.float64)], ValueError, "torch.float32, on cpu, got .*torch.float64"),
    ],
)
@pytest.mark.parametrize("good", [0, 4])
def test_what_is_not_a_gradient_is_refused_at_the_first_job_and_later(
    method: Method, wrong: Callable[[Job], object], error: type[Exception], message: str, good: int
) -> None:
    calls: list[Job] = []

    def function(job: Job) -> object:
        calls.append(job)
        return [torch.ones(2)] if len(calls) <= good else wrong(job)

    with pytest.raises(error, match=message):
        list(simulate(**arguments(method=method, gradient_fn=function, max_steps=20)))
    assert len(calls) == good + 1


@pytest.mark.parametrize("refill", [False, True])
def test_a_mean_is_not_made_in_the_memory_of_who_computes_the_gradients(refill: bool) -> None:
    x, memory, calls = torch.zeros(2), torch.ones(2), []

    def function(job: Job) -> list[Tensor]:
        calls.append(job)
        if refill:
            memory.fill_(float(len(calls)))
        return [memory]

    sgd = torch.optim.SGD([x], lr=1.0)
    list(simulate(MinibatchSGD(), SimulatedCluster(UniformTimes(3)), [x], sgd, function, max_steps=1))
    assert x.tolist() == ([-2.0, -2.0] if refill else [-1.0, -1.0])
    assert memory.tolist() == ([3.0, 3.0] if refill else [1.0, 1.0])


def test_a_step_in_which_no_parameter_took_part_changes_none() -> None:
    x = torch.ones(2)
    run = simulate(
        **arguments(
            method=RennalaSGD(2), parameters=[x], optimizer=torch.optim.SGD([x], 0.1), gradient_fn=lambda job: [None]
        )
    )
    next(run)
    assert x.tolist() == [1.0, 1.0]


@pytest.mark.parametrize("method", [ASGD(), LocalSGD(2.0)], ids=repr)
def test_complex_parameters_are_refused(method: Method) -> None:
    z = torch.ones(2, dtype=torch.complex64)
    with pytest.raises(ValueError, match=r"parameters must be real, got parameter 0 .*view_as_complex"):
        simulate(**arguments(method=method, parameters=[z], optimizer=torch.optim.SGD([z], lr=0.1)))


_TWICE = torch.ones(2)


@pytest.mark.parametrize("method", [ASGD(), LocalSGD(2.0)], ids=repr)
@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"gradient_fn": None}, TypeError, "gradient_fn must be a function of a job"),
        ({"max_steps": True}, TypeError, "max_steps must be an integer of at least 0, or None for no limit, got True"),
        ({"max_steps": 2.5}, TypeError, "max_steps must be an integer of at least 0, or None for no limit, got 2.5"),
        ({"max_steps": "3"}, TypeError, "max_steps must be an integer of at least 0, or None for no limit, got '3'"),
        ({"max_time": "3"}, TypeError, "max_time must be a number of at least 0"),
        ({"max_time": True}, TypeError, "max_time must be a number of at least 0"),
        (
            {"parameters": [_TWICE, _TWICE], "optimizer": torch.optim.SGD([_TWICE], lr=0.1)},
            ValueError,
            "parameter 1 is parameter 0 once more",
        ),
        ({"parameters": [_TWICE], "optimizer": torch.optim.LBFGS([_TWICE])}, ValueError, "LBFGS evaluates the loss"),
    ],
)
def test_wrong_arguments_are_refused_for_every_kind_of_method(
    method: Method, changes: dict[str, object], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        simulate(**arguments(method=method, **changes))
