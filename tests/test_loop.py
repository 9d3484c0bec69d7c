"""`simulate` with server methods: equal to loops written by hand, bit for bit, and clear about what it refuses."""

from __future__ import annotations

import math
from collections.abc import Callable
from heapq import heapify, heapreplace
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
from lightning_async.methods.server import NonFiniteGradientError
from lightning_async.simulation import Job, Link, RandomTimes, SimulatedCluster, SqrtTimes, TwoSpeedTimes, UniformTimes

STEPS = 150
OPTIMIZERS = {
    "sgd": lambda ps: torch.optim.SGD(ps, lr=0.1),
    "momentum": lambda ps: torch.optim.SGD(ps, lr=0.02, momentum=0.9, nesterov=True, weight_decay=1e-3),
    "adam": lambda ps: torch.optim.Adam(ps, lr=0.01),
}
EVERY_OPTIMIZER = pytest.mark.parametrize("optimizer", OPTIMIZERS)
METHODS = [
    ASGD(),
    ASGD("uniform"),
    ClippedASGD(clip=0.1),
    DelayAdaptiveASGD(concurrency=2),
    RingmasterASGD(4),
    RennalaSGD(3),
    MinibatchSGD(),
]


def start() -> list[Tensor]:
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(7, generator=generator), torch.randn(3, 2, generator=generator)]


def gradient(ps: list[Tensor], job: Job) -> list[Tensor]:
    """Of sum log cosh, with noise that belongs to the job."""
    generator = torch.Generator().manual_seed(1000 * job.worker + job.number)
    return [torch.tanh(p) + 0.1 * torch.randn(p.shape, generator=generator) for p in ps]


def run(method: Method, cluster: SimulatedCluster, optimizer: str, **limits: float) -> list[list[Tensor]]:
    ps = start()
    steps = simulate(method, cluster, ps, OPTIMIZERS[optimizer](ps), lambda job: gradient(ps, job), **limits)
    return [[p.clone() for p in ps] for _ in steps]


def by_hand(
    times: tuple[float, ...],
    optimizer: str,
    change: Callable[[torch.optim.Optimizer, list[Tensor], int], tuple[list[Tensor], float]],
) -> list[list[Tensor]]:
    """Vanilla ASGD with a copy of the iterate at every worker; `change` gives direction and factor of a step."""
    ps = start()
    opt = OPTIMIZERS[optimizer](ps)
    heap = [(time, worker, Job(worker, 0, 0)) for worker, time in enumerate(times)]
    heapify(heap)
    copies = [[p.clone() for p in ps] for _ in times]
    history = []
    for k in range(STEPS):
        time, worker, job = heap[0]
        direction, factor = change(opt, gradient(copies[worker], job), k - job.version)
        for p, g in zip(ps, direction, strict=True):
            p.grad = g
        lrs = [group["lr"] for group in opt.param_groups]
        for group in opt.param_groups:
            group["lr"] *= factor
        opt.step()
        for group, lr in zip(opt.param_groups, lrs, strict=True):
            group["lr"] = lr
        history.append([p.clone() for p in ps])
        copies[worker] = [p.clone() for p in ps]
        heapreplace(heap, (time + times[worker], worker, Job(worker, k + 1, job.number + 1)))
    return history


def assert_equal(ours: list[list[Tensor]], theirs: list[list[Tensor]]) -> None:
    assert len(ours) == len(theirs)
    for a, b in zip(ours, theirs, strict=True):
        assert all(map(torch.equal, a, b))


@EVERY_OPTIMIZER
def test_vanilla_equals_a_loop_by_hand(optimizer: str) -> None:
    times = SqrtTimes(6)
    theirs = by_hand(times.constant, optimizer, lambda opt, g, delay: (g, 1.0))
    assert_equal(run(ASGD(), SimulatedCluster(times), optimizer, max_steps=STEPS), theirs)


@EVERY_OPTIMIZER
def test_clipped_equals_a_loop_by_hand(optimizer: str) -> None:
    def clip(opt: torch.optim.Optimizer, g: list[Tensor], delay: int) -> tuple[list[Tensor], float]:
        total = math.sqrt(sum(torch.dot(t.flatten(), t.flatten()).item() for t in g))
        return ([t * (0.5 / total) for t in g] if total > 0.5 else g), 1.0

    times = SqrtTimes(6)
    theirs = by_hand(times.constant, optimizer, clip)
    assert_equal(run(ClippedASGD(clip=0.5), SimulatedCluster(times), optimizer, max_steps=STEPS), theirs)


@EVERY_OPTIMIZER
def test_delay_adaptive_equals_a_loop_by_hand(optimizer: str) -> None:
    times = SqrtTimes(6)
    theirs = by_hand(times.constant, optimizer, lambda opt, g, delay: (g, min(1.0, 3 / max(delay, 1))))
    ours = run(DelayAdaptiveASGD(concurrency=3), SimulatedCluster(times), optimizer, max_steps=STEPS)
    assert_equal(ours, theirs)


@EVERY_OPTIMIZER
def test_minibatch_equals_one_loop_on_the_mean_gradient(optimizer: str) -> None:
    n, ps = 5, start()
    opt = OPTIMIZERS[optimizer](ps)
    theirs = []
    for k in range(30):
        gradients = [gradient(ps, Job(worker, k, k)) for worker in range(n)]
        for p, g in zip(ps, zip(*gradients, strict=True), strict=True):
            p.grad = torch.stack(g).mean(0)
        opt.step()
        theirs.append([p.clone() for p in ps])
    ours = run(MinibatchSGD(), SimulatedCluster(UniformTimes(n)), optimizer, max_steps=30)
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b, rtol=0.0, atol=1e-6)


@EVERY_OPTIMIZER
@pytest.mark.parametrize(
    "method", [ASGD(), ClippedASGD(1e6), RingmasterASGD(1), RennalaSGD(1), MinibatchSGD()], ids=repr
)
def test_with_one_worker_every_method_is_the_optimizer_alone(method: Method, optimizer: str) -> None:
    theirs = by_hand((1.0,), optimizer, lambda opt, g, delay: (g, 1.0))
    assert_equal(run(method, SimulatedCluster(UniformTimes(1)), optimizer, max_steps=STEPS), theirs)


def test_ringmaster_without_a_delay_that_is_too_large_is_vanilla_bit_for_bit() -> None:
    cluster = SimulatedCluster(UniformTimes(6))
    vanilla = run(ASGD(), cluster, "momentum", max_steps=STEPS)
    assert_equal(run(RingmasterASGD(6), cluster, "momentum", max_steps=STEPS), vanilla)


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


class TestNonFiniteGradients:
    def test_the_schedule_goes_on_as_if_nothing_had_happened(self) -> None:
        ps, cluster = start(), SimulatedCluster(TwoSpeedTimes(4, 3.0))

        def function(job: Job) -> list[Tensor]:
            return [g * math.nan if job.version in (2, 3, 7) else g for g in gradient(ps, job)]

        run = simulate(ASGD(), cluster, ps, torch.optim.SGD(ps, lr=0.1), function, max_steps=20)
        assert list(run) == list(islice(ASGD().steps(cluster), 20))
        assert all(bool(p.isfinite().all()) for p in ps)
        assert run.server.nonfinite > 0

    @EVERY_OPTIMIZER
    def test_the_optimizer_is_not_called_if_nothing_remains(self, optimizer: str) -> None:
        """Parameters and everything the optimizer remembers stay as they are."""
        ps = start()
        opt = OPTIMIZERS[optimizer](ps)
        spoil = False

        def function(job: Job) -> list[Tensor]:
            return [g * math.nan if spoil else g for g in gradient(ps, job)]

        run = simulate(ASGD(), SimulatedCluster(SqrtTimes(4)), ps, opt, function)
        for _ in range(5):
            next(run)
        before = [[p.clone() for p in ps], *[_clone(opt.state[p]) for p in ps]]
        spoil = True
        assert next(run).index == 5
        assert next(run).index == 6
        after = [ps, *[opt.state[p] for p in ps]]
        assert all(_same(a, b) for a, b in zip(before, after, strict=True))
        assert run.server.nonfinite == 2
        spoil = False
        next(run)
        assert not torch.equal(before[0][0], ps[0])

    def test_a_mean_is_over_the_rest(self) -> None:
        x = torch.zeros(2)
        values = iter([1.0, math.nan, 5.0, math.inf])
        sgd = torch.optim.SGD([x], lr=1.0)
        run = simulate(
            MinibatchSGD(), SimulatedCluster(UniformTimes(4)), [x], sgd, lambda job: [torch.full((2,), next(values))], 1
        )
        (step,) = run
        assert len(step.jobs) == 4
        assert torch.equal(x, torch.tensor([-3.0, -3.0]))
        assert run.server.nonfinite == 2

    def test_raise_stops_before_the_parameters_change(self) -> None:
        x = torch.ones(1)
        sgd = torch.optim.SGD([x], lr=1.0)
        run = simulate(ASGD(), SimulatedCluster(UniformTimes(2)), [x], sgd, lambda job: [x / 0.0], on_nonfinite="raise")
        with pytest.raises(NonFiniteGradientError):
            next(run)
        assert x.item() == 1.0


def _clone(state: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: value.clone() for name, value in state.items() if isinstance(value, Tensor)}


def _same(a: object, b: object) -> bool:
    if isinstance(a, list):
        return all(map(torch.equal, a, b))
    return all(torch.equal(a[name], b[name]) for name in a)


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
