"""The optimizer: its update rule, its groups, and what it refuses."""

import copy

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from lightning_async.optim import LMO
from lightning_async.optim import lmo as lmo_module
from lightning_async.optim.norms import NORMS, lmo, shape_factor
from tests.optim.random_parameters import new_gradients, random_parameter


@pytest.mark.parametrize("norm", sorted(NORMS))
@pytest.mark.parametrize("nesterov", [False, True])
def test_steps_follow_the_rule_with_a_momentum_that_changes_every_step(norm, nesterov):
    """alpha_k = k^(-1/2) with alpha_0 = 1, and a step size that changes too: the parameter-agnostic rule."""
    x = random_parameter(6, 4)
    optimizer = LMO([x], lr=0.1, norm=norm, nesterov=nesterov, weight_decay=0.2, radius=3.0, ns_dtype="float32")
    expected, m = x.detach().clone(), torch.zeros_like(x)
    for k in range(5):
        new_gradients([x], k)
        alpha, lr = (k or 1) ** -0.5, 0.1 * (k + 1) ** -0.75
        optimizer.param_groups[0]["momentum"] = 1 - alpha
        optimizer.param_groups[0]["lr"] = lr
        optimizer.step()
        m = (1 - alpha) * m + alpha * x.grad
        u = (1 - alpha) * m + alpha * x.grad if nesterov else m
        step = lmo(u, norm, dtype=torch.float32) * shape_factor(norm, 6, 4)
        expected = (1 - lr * 0.2) * expected + lr * 3.0 * step
    torch.testing.assert_close(x.detach(), expected, rtol=1e-5, atol=1e-6)


def test_full_weight_on_the_new_gradient_makes_it_the_momentum_exactly():
    x = random_parameter(5, 3)
    optimizer = LMO([x])
    optimizer.step()
    new_gradients([x], 1)
    optimizer.param_groups[0]["momentum"] = 0.0
    optimizer.step()
    assert torch.equal(optimizer.state[x]["momentum_buffer"], x.grad)


def test_euclidean_steps_are_normalised_sgd():
    x = random_parameter(5, 3)
    expected = x.detach() - 0.3 * x.grad / x.grad.norm()
    LMO([x], lr=0.3, norm="euclidean").step()
    torch.testing.assert_close(x.detach(), expected)


@pytest.mark.parametrize("nesterov", [False, True])
@pytest.mark.parametrize("shape", [(64, 64), (128, 32), (32, 128)])
def test_matrices_agree_with_torch_muon_to_its_bfloat16(nesterov, shape):
    ours = [random_parameter(*shape) for _ in range(3)]
    theirs = copy.deepcopy(ours)
    optimizers = [
        LMO(ours, lr=0.02, nesterov=nesterov, weight_decay=0.1, coefficients="quintic", ns_dtype="bfloat16"),
        torch.optim.Muon(theirs, lr=0.02, nesterov=nesterov, weight_decay=0.1, momentum=0.95),
    ]
    start = [p.detach().clone() for p in ours]
    for k in range(4):
        new_gradients(ours, k)
        new_gradients(theirs, k)
        for optimizer in optimizers:
            optimizer.step()
    for mine, other, before in zip(ours, theirs, start, strict=True):
        # Five iterations in bfloat16 are some 1.5 % from exact ones, in either implementation.
        assert (mine - other).norm() <= 0.03 * (other - before).norm()


def test_parameters_of_equal_shape_are_iterated_in_one_batch(monkeypatch):
    batches = []
    original = lmo_module.orthogonalize
    monkeypatch.setattr(lmo_module, "orthogonalize", lambda m, *rest: batches.append(len(m)) or original(m, *rest))
    LMO([random_parameter(8, 8) for _ in range(4)] + [random_parameter(8, 4) for _ in range(2)]).step()
    assert sorted(batches) == [2, 4]


def test_batches_are_bounded_and_do_not_change_the_step(monkeypatch):
    bounded, free = [random_parameter(8, 6) for _ in range(5)], []
    free = copy.deepcopy(bounded)
    for p, q in zip(bounded, free, strict=True):
        q.grad = p.grad
    LMO(free, ns_dtype="float32").step()
    monkeypatch.setattr(lmo_module, "_BATCH_ELEMENTS", 100)
    LMO(bounded, ns_dtype="float32").step()
    for p, q in zip(bounded, free, strict=True):
        torch.testing.assert_close(p, q, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("shape", [(96, 144), (128, 128), (32, 256)])
def test_a_step_holds_at_most_seven_times_its_largest_batch(shape):
    parameters = [random_parameter(*shape) for _ in range(4)]
    optimizer = LMO(parameters, nesterov=True, ns_dtype="float32")
    optimizer.step()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profile:
        optimizer.step()
    held = peak = 0
    for event in profile.profiler.kineto_results.events():
        if event.name() == "[memory]":
            held += event.nbytes()
            peak = max(peak, held)
    assert 0 < peak <= 7 * 4 * 4 * shape[0] * shape[1]


@settings(max_examples=20)
@given(norm=st.sampled_from(sorted(NORMS)), lr=st.floats(0.01, 1.0), seed=st.integers(0, 99))
def test_constrained_steps_never_leave_the_ball(norm, lr, seed):
    x = nn.Parameter(torch.zeros(5, 4))
    optimizer = LMO([x], lr=lr, norm=norm, constrained=True, radius=2.0, ns_dtype="float32")
    for k in range(15):
        new_gradients([x], seed + k)
        optimizer.step()
        limit = 2.0 * (1.15 * shape_factor(norm, 5, 4) if norm == "spectral" else 1.0)
        assert NORMS[norm].norm(x.detach()) <= limit * (1 + 1e-5)


def test_vectors_are_never_iterated(monkeypatch):
    monkeypatch.setattr(lmo_module, "orthogonalize", lambda *_: pytest.fail("a vector was iterated"))
    x = random_parameter(7)
    y = copy.deepcopy(x)
    y.grad = x.grad
    LMO([x], norm="spectral").step()
    LMO([y], norm="bias_rms").step()
    assert torch.equal(x, y)


def test_a_convolution_steps_as_its_matrix():
    x = random_parameter(6, 2, 3, 3)
    y = nn.Parameter(x.detach().reshape(6, 18).clone())
    y.grad = x.grad.reshape(6, 18)
    LMO([x], ns_dtype="float32").step()
    LMO([y], ns_dtype="float32").step()
    assert torch.equal(x.reshape(6, 18), y)


def test_a_convolution_in_channels_last_format_takes_the_same_step():
    x = random_parameter(6, 2, 3, 3)
    y = nn.Parameter(x.detach().clone(memory_format=torch.channels_last))
    y.grad = x.grad.clone(memory_format=torch.channels_last)
    LMO([x], ns_dtype="float32").step()
    LMO([y], ns_dtype="float32").step()
    torch.testing.assert_close(x.detach(), y.detach(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("norm", ["spectral", "sign", "row_rms"])
def test_a_gradient_that_is_not_finite_changes_neither_parameter_nor_momentum(bad, norm):
    x, healthy = random_parameter(4, 4), random_parameter(4, 4)
    optimizer = LMO([x, healthy], norm=norm, weight_decay=0.1)
    optimizer.step()
    before, momentum = x.detach().clone(), optimizer.state[x]["momentum_buffer"].clone()
    healthy_before = healthy.detach().clone()
    x.grad[2, 1] = bad
    with pytest.warns(UserWarning, match="1 of 2 parameters have a gradient that is not finite"):
        optimizer.step()
    assert torch.equal(x, before)
    assert torch.equal(optimizer.state[x]["momentum_buffer"], momentum)
    assert not torch.equal(healthy, healthy_before)


def test_bad_gradients_are_reported_once(recwarn):
    x = random_parameter(4, 4)
    x.grad.fill_(float("nan"))
    optimizer = LMO([x])
    optimizer.step()
    optimizer.step()
    assert len(recwarn) == 1


def test_a_huge_but_finite_gradient_is_not_taken_for_a_bad_one(recwarn):
    x = random_parameter(4, 4)
    x.grad.fill_(1e30)
    LMO([x], norm="sign").step()
    assert not recwarn.list


def test_each_group_keeps_its_own_options():
    x, y = random_parameter(3, 3), random_parameter(3, 3)
    optimizer = LMO([{"params": [x], "norm": "sign", "lr": 0.5}, {"params": [y], "norm": "euclidean"}], lr=0.25)
    before = x.detach().clone(), y.detach().clone()
    optimizer.step()
    torch.testing.assert_close((x - before[0]).abs(), torch.full((3, 3), 0.5))
    torch.testing.assert_close((y - before[1]).norm(), torch.tensor(0.25))


def test_schedulers_move_step_size_and_momentum():
    x = random_parameter(3, 3)
    optimizer = LMO([x], lr=0.1, norm="euclidean")
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.4, total_steps=10)
    lrs, momenta = [], []
    for _ in range(9):
        before = x.detach().clone()
        optimizer.step()
        lrs.append(scheduler.get_last_lr()[0])
        momenta.append(optimizer.param_groups[0]["momentum"])
        torch.testing.assert_close((x.detach() - before).norm().item(), lrs[-1], rtol=1e-4, atol=1e-6)
        scheduler.step()
    assert len(set(lrs)) > 5
    assert len(set(momenta)) > 5


def test_a_closure_is_evaluated_with_gradients_and_its_loss_returned():
    x = nn.Parameter(torch.ones(2, 2))
    optimizer = LMO([x], norm="sign", lr=0.5)

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = x.square().sum()
        loss.backward()
        return loss

    assert optimizer.step(closure).item() == 4.0
    torch.testing.assert_close(x.detach(), torch.full((2, 2), 0.5))


def test_parameters_without_gradient_are_left_alone():
    x, y = random_parameter(3, 3), nn.Parameter(torch.ones(3, 3))
    LMO([x, y], weight_decay=0.5).step()
    assert torch.equal(y, torch.ones(3, 3))


def test_scalars_and_empty_parameters_step():
    scalar, empty = random_parameter(), random_parameter(0, 3)
    before = scalar.detach().clone()
    LMO([scalar, empty], lr=0.1).step()
    torch.testing.assert_close((scalar - before).abs(), torch.tensor(0.1))


def test_sparse_gradients_are_refused_with_the_remedy():
    embedding = nn.Embedding(5, 3, sparse=True)
    embedding(torch.tensor([1])).sum().backward()
    with pytest.raises(RuntimeError, match=r"sparse gradient of shape \(5, 3\).*sparse=False"):
        LMO(embedding.parameters()).step()


def test_a_torch_dtype_is_kept_as_its_name():
    assert LMO([random_parameter(2, 2)], ns_dtype=torch.float32).param_groups[0]["ns_dtype"] == "float32"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"lr": -1.0}, "lr=-1.0 must be"),
        ({"lr": float("nan")}, "lr=nan must be"),
        ({"momentum": 1.0}, r"momentum=1.0 must be in \[0, 1\)"),
        ({"momentum": -0.1}, "momentum=-0.1"),
        ({"weight_decay": -0.1}, "weight_decay=-0.1"),
        ({"radius": 0.0}, "radius=0.0 must be positive"),
        ({"norm": "nuclear"}, "norm='nuclear'.*spectral"),
        ({"coefficients": "cubic"}, "coefficients='cubic'.*released, quintic"),
        ({"ns_dtype": "float16"}, "ns_dtype='float16'.*bfloat16"),
        ({"constrained": True, "weight_decay": 0.1}, "weight_decay=0.1 with constrained=True"),
    ],
)
def test_bad_options_are_refused_at_construction(options, message):
    with pytest.raises(ValueError, match=message):
        LMO([random_parameter(2, 2)], **options)
    with pytest.raises(ValueError, match=message):
        LMO([{"params": [random_parameter(2, 2)], **options}])
