"""`simulate` with server methods equals loops written by hand, bit for bit."""

from __future__ import annotations

import math
from collections.abc import Callable
from heapq import heapify, heapreplace

import pytest
import torch
from torch import Tensor

from lightning_async import simulate
from lightning_async.methods import (
    ASGD,
    ClippedASGD,
    DelayAdaptiveASGD,
    Method,
    MinibatchSGD,
    RennalaSGD,
    RingmasterASGD,
)
from lightning_async.simulation import Job, SimulatedCluster, SqrtTimes, UniformTimes
from tests.log_cosh import EVERY_OPTIMIZER, OPTIMIZERS, gradient, start

STEPS = 150


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
