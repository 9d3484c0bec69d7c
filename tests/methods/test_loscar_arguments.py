"""Arguments of replica methods: refused at construction, with what is allowed."""

import pickle
import warnings

import pytest
import torch
from torch import nn

from lightning_async import SimulatedCluster, simulate
from lightning_async.methods import LOSCAR, DiLoCo, LocalSGD
from lightning_async.methods.server import NonFiniteGradientError
from lightning_async.simulation import Link, UniformTimes


@pytest.mark.parametrize("sparsity", [-0.1, 1.1, float("nan")])
def test_a_fraction_outside_zero_to_one_is_refused(sparsity):
    with pytest.raises(ValueError, match=r"sparsity must be a number in \[0, 1\].*1 all, 0 none"):
        LOSCAR(sparsity, compute_window=1.0)


@pytest.mark.parametrize(
    ("arguments", "error", "match"),
    [
        ({"sparsity": "0.1"}, TypeError, "sparsity must be a number"),
        ({"sparsity": True}, TypeError, "sparsity must be a number"),
        ({"merge": "average"}, ValueError, "merge must be one of 'corrected', 'overwrite', or a number"),
        ({"merge": 1.5}, ValueError, r"merge must be a number in \[0, 1\]"),
        ({"merge": None}, TypeError, r"merge must be a number in \[0, 1\]"),
        ({"overlap": 1}, TypeError, "overlap must be True or False"),
        ({"mask": [1, 2]}, TypeError, "mask must be a function"),
        ({"compute_window": 0.0}, ValueError, "compute_window must be a finite number above 0"),
        ({"compute_window": float("inf")}, ValueError, "compute_window must be a finite number above 0"),
    ],
)
def test_loscar_refuses(arguments, error, match):
    with pytest.raises(error, match=match):
        LOSCAR(**{"sparsity": 0.1, "compute_window": 1.0, **arguments})


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"outer_lr": 0.0}, "outer_lr"),
        ({"outer_momentum": 1.0}, r"outer_momentum must be a number in \[0, 1\)"),
        ({"outer_momentum": -0.1}, "outer_momentum"),
    ],
)
def test_diloco_refuses(arguments, match):
    with pytest.raises(ValueError, match=match):
        DiLoCo(1.0, **arguments)


@pytest.mark.parametrize("method", [LOSCAR(0.1, 0.5, False, compute_window=2.0), LocalSGD(2.0), DiLoCo(2.0, 0.5)])
def test_a_method_is_shown_by_its_arguments_and_survives_pickling(method):
    assert repr(pickle.loads(pickle.dumps(method))) == repr(method)
    assert "compute_window=2.0" in repr(method)


def _simulate(parameters, gradient_fn=None, on_nonfinite="discard", max_steps=8, **limits):
    optimizer = torch.optim.SGD(parameters, lr=0.1)
    cluster = SimulatedCluster(UniformTimes(2), Link(latency=5.0))
    gradient_fn = gradient_fn or (lambda job: [p.detach().clone() for p in parameters])
    limits = {"max_steps": max_steps, "on_nonfinite": on_nonfinite, **limits}
    running = simulate(LOSCAR(1.0, compute_window=2.0), cluster, parameters, optimizer, gradient_fn, **limits)
    for _ in running:
        pass
    return running


def test_parameters_of_several_dtypes_are_refused_with_the_remedy():
    parameters = [nn.Parameter(torch.ones(2)), nn.Parameter(torch.ones(2, dtype=torch.bfloat16))]
    with pytest.raises(ValueError, match=r"same dtype.*module\.float"):
        _simulate(parameters)


def test_a_budget_within_the_first_round_is_refused_before_the_first_gradient():
    calls = []
    with pytest.raises(ValueError, match=r"after the budget of 6\.5"):
        _simulate([torch.ones(2)], calls.append, max_time=6.5)
    assert not calls


def test_a_run_that_ends_before_the_first_merge_is_told_so():
    # The first round: 2 + 2 steps, then 5 + 5 while the message travels.
    with pytest.warns(
        UserWarning, match=r"simulate\(max_steps=13\) ends before .* has 14, and ends at logical time 7 "
    ):
        _simulate([torch.ones(2)], max_steps=13)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        _simulate([torch.ones(2)], max_steps=14)


def test_steps_up_to_the_limit_of_time_are_made():
    running = _simulate([torch.ones(2)], max_steps=None, max_time=10.0)
    assert running.local.logical_time == 10.0
    assert running.local.next_step().time > 10.0


@pytest.mark.filterwarnings("ignore:.*before replicas are merged")
def test_the_average_is_in_place_when_the_run_ends_in_the_middle_of_a_round():
    x = torch.ones(3)
    running = _simulate([x], lambda job: [torch.full_like(x, 1.0 + job.worker)], max_steps=3)
    assert running.local.rounds == 0
    torch.testing.assert_close(x, running.replicas.mean(0))


def test_a_gradient_that_is_not_finite_leaves_its_replica_where_it_is():
    x = torch.ones(2)
    bad = {(0, 1)}

    def gradient(job):
        return [torch.full_like(x, float("nan") if (job.worker, job.number) in bad else 1.0)]

    running = _simulate([x], gradient, max_steps=4)
    assert running.local.nonfinite == 1
    torch.testing.assert_close(running.replicas, torch.tensor([[0.9, 0.9], [0.8, 0.8]]))
    with pytest.raises(NonFiniteGradientError):
        _simulate([torch.ones(2)], lambda job: [torch.full((2,), float("inf"))], on_nonfinite="raise")
