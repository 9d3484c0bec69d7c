"""`simulate` with server methods: its steps, its limits, and what it asks of gradients and optimizers."""

from __future__ import annotations

from itertools import islice

import pytest
import torch
from torch import Tensor, nn

from lightning_async import Simulation, simulate
from lightning_async.methods import (
    ASGD,
    ClippedASGD,
    DelayAdaptiveASGD,
    LocalSGD,
    Method,
    MinibatchSGD,
    RennalaSGD,
    RingmasterASGD,
)
from lightning_async.simulation import Job, Link, RandomTimes, SimulatedCluster, SqrtTimes, TwoSpeedTimes, UniformTimes
from tests.log_cosh import gradient, start

METHODS = [
    ASGD(),
    ASGD("uniform"),
    ClippedASGD(clip=0.1),
    DelayAdaptiveASGD(concurrency=2),
    RingmasterASGD(4),
    RennalaSGD(3),
    MinibatchSGD(),
]


@pytest.mark.parametrize("method", METHODS, ids=repr)
def test_gradients_by_autograd_on_a_module_equal_those_by_formula(method: Method) -> None:
    cluster = SimulatedCluster(RandomTimes(4, "gamma"), seed=1)
    ends = []
    for kind in ("formula", "backward", "backward into the old gradient"):
        torch.manual_seed(0)
        module = nn.Linear(3, 2)
        opt = torch.optim.SGD(module.parameters(), lr=0.1, momentum=0.5)

        def by_formula(job: Job, module: nn.Linear = module) -> list[Tensor]:
            inputs = torch.full((3,), 1.0 + job.worker)
            out = module(inputs).detach()
            return [torch.outer(out, inputs), out]

        def by_backward(job: Job, module: nn.Linear = module, opt=opt, kind: str = kind) -> list[Tensor]:
            opt.zero_grad(set_to_none=kind == "backward")
            (module(torch.full((3,), 1.0 + job.worker)) ** 2 / 2).sum().backward()
            return [p.grad for p in module.parameters()]

        function = by_formula if kind == "formula" else by_backward
        for _ in simulate(method, cluster, module.parameters(), opt, function, max_steps=40):
            pass
        ends.append(torch.cat([p.detach().flatten() for p in module.parameters()]))
    torch.testing.assert_close(ends[0], ends[1])
    assert torch.equal(ends[1], ends[2])


@pytest.mark.parametrize("method", METHODS, ids=repr)
def test_the_steps_are_those_of_the_schedule(method: Method) -> None:
    ps, cluster = start(), SimulatedCluster(RandomTimes(5, "lognormal"), seed=7)
    steps = simulate(method, cluster, ps, torch.optim.SGD(ps, lr=0.0), lambda job: gradient(ps, job), max_steps=50)
    assert list(steps) == list(islice(method.steps(cluster), 50))


def test_a_link_of_finite_bandwidth_knows_the_size_of_the_parameters() -> None:
    ps = [torch.zeros(100, dtype=torch.float64)]
    cluster = SimulatedCluster(UniformTimes(1), Link(latency=1.0, bandwidth=800.0))
    steps = simulate(ASGD(), cluster, ps, torch.optim.SGD(ps, lr=0.0), lambda job: [ps[0].clone()], max_steps=1)
    assert [step.time for step in steps] == [1.0 + 2 * (1.0 + 1.0)]


def simulation(max_steps: int | None = None, max_time: float | None = None) -> Simulation:
    ps = start()
    cluster = SimulatedCluster(UniformTimes(2))
    sgd = torch.optim.SGD(ps, lr=0.1)
    return simulate(ASGD(), cluster, ps, sgd, lambda job: gradient(ps, job), max_steps, max_time)


def test_the_time_limit_keeps_a_step_that_falls_on_it() -> None:
    assert [step.time for step in simulation(max_time=2.0)] == [1.0, 1.0, 2.0, 2.0]
    assert [step.time for step in simulation(max_time=1.999)] == [1.0, 1.0]
    assert list(simulation(max_time=0.5)) == []


def test_whichever_limit_comes_first_ends_the_run_for_good() -> None:
    assert len(list(simulation(max_steps=3, max_time=10.0))) == 3
    run = simulation(max_steps=3)
    assert len(list(run)) == 3
    assert list(run) == []
    assert list(simulation(max_steps=0)) == []


def test_the_parameters_hold_the_newest_iterate_whenever_a_step_has_been_made() -> None:
    x = torch.zeros(1)
    seen = []
    for step in simulate(
        ASGD(), SimulatedCluster(SqrtTimes(5)), [x], torch.optim.SGD([x], lr=1.0), lambda job: [torch.ones(1)], 50
    ):
        assert x.item() == -(step.index + 1)
        seen.append(step.delays[0])
    assert max(seen) > 5


class _Momentum(ASGD):
    def momentum(self, step):
        return 1.0 - 1.0 / (step.index + 2)


def test_a_method_may_set_the_momentum_of_every_step() -> None:
    x = torch.ones(1)
    opt = torch.optim.SGD([x], lr=0.1, momentum=0.3)
    theirs, buffer = torch.ones(1), torch.ones(1)
    for step in simulate(_Momentum(), SimulatedCluster(UniformTimes(1)), [x], opt, lambda job: [x.clone()], 10):
        gradient = theirs.clone()
        buffer = gradient if step.index == 0 else (1.0 - 1.0 / (step.index + 2)) * buffer + gradient
        theirs -= 0.1 * buffer
        torch.testing.assert_close(x, theirs)
        assert opt.param_groups[0]["momentum"] == 0.3


def test_the_learning_rate_that_schedulers_see_is_never_scaled() -> None:
    x = torch.ones(1)
    opt = torch.optim.SGD([x], lr=1.0)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(opt, 0.9)
    cluster = SimulatedCluster(TwoSpeedTimes(4, 10.0))
    for step in simulate(DelayAdaptiveASGD(concurrency=1), cluster, [x], opt, lambda job: [torch.zeros(1)], 60):
        assert opt.param_groups[0]["lr"] == pytest.approx(0.9**step.index)
        scheduler.step()


class _TwoGradients(ASGD):
    def direction(self, step, gradients):
        return gradients[0], [2.0 * g for g in gradients[0]]


def test_a_second_gradient_needs_an_optimizer_that_takes_it() -> None:
    x = torch.ones(1)
    run = simulate(
        _TwoGradients(), SimulatedCluster(UniformTimes(1)), [x], torch.optim.SGD([x], 0.1), lambda job: [x.clone()]
    )
    with pytest.raises(TypeError, match="set_second_gradient"):
        next(run)


@pytest.mark.parametrize("method", METHODS, ids=repr)
def test_one_gradient_is_computed_per_job_used(method: Method) -> None:
    ps, calls = start(), []
    cluster = SimulatedCluster(RandomTimes(6, "pareto"), seed=2)
    opt = torch.optim.SGD(ps, lr=0.1)
    steps = list(simulate(method, cluster, ps, opt, lambda job: calls.append(job) or gradient(ps, job), max_steps=40))
    assert calls == [job for step in steps for job in step.jobs]


def test_local_steps_have_the_shard_of_their_worker() -> None:
    x = torch.zeros(2)
    sgd = torch.optim.SGD([x], lr=0.1)
    cluster = SimulatedCluster(SqrtTimes(3))
    steps = simulate(LocalSGD(compute_window=4.0), cluster, [x], sgd, lambda job: [x.clone()], 9, sharded=True)
    assert all(job.shard == job.worker for step in steps for job in step.jobs)


def test_sharded_is_a_boolean() -> None:
    x = torch.zeros(2)
    with pytest.raises(TypeError, match="sharded must be True or False, got 'yes'"):
        simulate(
            ASGD(),
            SimulatedCluster(SqrtTimes(3)),
            [x],
            torch.optim.SGD([x], lr=0.1),
            lambda job: [x.clone()],
            sharded="yes",  # type: ignore[call-overload]
        )
