"""FedBuff: local steps, weights by staleness, what a job takes and sends."""

from __future__ import annotations

from itertools import islice

import pytest
import torch
from torch import Tensor

from lightning_async import SimulatedCluster, simulate
from lightning_async.methods import ASGD, FedBuff
from lightning_async.methods.server import ParameterServer
from lightning_async.simulation import FixedTimes, HalfNormalNoise, Job, Link, PowerTimes, RandomTimes

TIMES = [1.0, 1.7, 4.0]
OPTIMA = torch.tensor([3.0, -1.0, 5.0], dtype=torch.float64)


def cluster(**arguments) -> SimulatedCluster:
    return SimulatedCluster(FixedTimes(TIMES), **arguments)


def test_equals_a_loop_by_hand() -> None:
    """Workers at 1, 1.7 and 4, two local steps a job, two arrivals an update."""
    method, lr = FedBuff(buffer=2, local_steps=2, local_lr=0.1), 0.5
    x = torch.tensor([2.0, -3.0], dtype=torch.float64)
    sgd = torch.optim.SGD([x], lr=lr)
    run = simulate(method, cluster(), [x], sgd, lambda job: [x - OPTIMA[job.worker] * job.number], max_steps=25)
    ours = [(step.time, x.clone()) for step in run]

    x, k, theirs, buffer = torch.tensor([2.0, -3.0], dtype=torch.float64), 0, [], []
    out = [(2 * time, worker, 0, 0, x.clone()) for worker, time in enumerate(TIMES)]
    while k < 25:
        job = min(out, key=lambda job: job[:2])
        time, worker, number, version, start = job
        local = start.clone()
        for i in (0, 1):
            local -= 0.1 * (local - OPTIMA[worker] * (2 * number + i))
        buffer.append((start - local) / (1 + k - version) ** 0.5)
        if len(buffer) == 2:
            x = x - lr * sum(buffer) / 2
            k, buffer = k + 1, []
            theirs.append((time, x.clone()))
        out[worker] = (time + 2 * TIMES[worker], worker, number + 1, k, x.clone())

    assert [time for time, _ in ours] == pytest.approx([time for time, _ in theirs])
    torch.testing.assert_close([x for _, x in ours], [x for _, x in theirs])


@pytest.mark.parametrize(
    "times",
    [
        FixedTimes(TIMES),
        HalfNormalNoise(FixedTimes(TIMES), scale=0.4),
        RandomTimes(3, "exponential"),
        PowerTimes([1.0, 2.0, 0.25]),
    ],
    ids=lambda times: type(times).__name__,
)
def test_a_job_takes_as_long_as_its_gradients_and_two_messages(times) -> None:
    simulated = SimulatedCluster(times, Link(latency=0.5), seed=3)
    x = torch.zeros(1)
    server = ParameterServer(FedBuff(buffer=1, local_steps=3, local_lr=0.1), simulated, [x])
    duration, ends = times.sampler(3), [0.0] * 3
    for _ in range(60):
        step = server.next_step()
        (job,) = step.jobs
        start = end = ends[job.worker] + 0.5
        for number in range(3 * job.number, 3 * job.number + 3):
            end += duration(job.worker, number, end)
        ends[job.worker] = end + 0.5
        assert step.time == pytest.approx(ends[job.worker])
        assert server.method.used_time(step, server.cluster) == pytest.approx(end - start + 1.0)
        server.after_update()


def test_every_local_step_is_a_gradient_of_its_own_at_the_point_reached_so_far() -> None:
    x = torch.tensor([1.0], dtype=torch.float64)
    calls: list[tuple[Job, float]] = []

    def gradient(job: Job) -> list[Tensor]:
        calls.append((job, x.item()))
        return [torch.ones_like(x)]

    method = FedBuff(buffer=1, local_steps=4, local_lr=0.25)
    sgd = torch.optim.SGD([x], lr=1.0)
    steps = list(simulate(method, cluster(), [x], sgd, gradient, max_steps=2, sharded=True))
    assert [step.jobs[0].number for step in steps] == [0, 0]
    assert [(job.worker, job.number, job.shard, at) for job, at in calls[:4]] == [
        (0, number, 0, 1.0 - 0.25 * number) for number in range(4)
    ]
    assert {(job.worker, job.number) for job, _ in calls} == {(w, i) for w in (0, 1) for i in range(4)}


def test_one_local_step_without_weights_is_asgd_with_the_product_of_the_step_sizes() -> None:
    def final(method, lr: float) -> Tensor:
        x = torch.tensor([1.0, -2.0], dtype=torch.float64)
        sgd = torch.optim.SGD([x], lr=lr, momentum=0.9)
        for _ in simulate(method, cluster(), [x], sgd, lambda job: [x.sin() + job.worker], max_steps=40):
            pass
        return x

    fedbuff = FedBuff(buffer=1, local_steps=1, local_lr=0.2, staleness_exponent=0.0)
    torch.testing.assert_close(final(fedbuff, 0.5), final(ASGD(), 0.1))


def test_a_job_with_a_gradient_that_is_not_finite_is_left_out_of_the_mean() -> None:
    """Worker 0 sends 0.1, and nothing when its second local step has no gradient."""

    def direction(spoiled: bool) -> float:
        x = torch.zeros(1)
        server = ParameterServer(FedBuff(buffer=2, local_steps=2, local_lr=0.05), cluster(), [x])

        def compute(job: Job, position: int) -> list[Tensor]:
            bad = spoiled and (job.worker, job.number) == (0, 1)
            return [torch.tensor([float("nan") if bad else 1.0 + job.worker])]

        (value,) = server.direction(compute)
        assert server.nonfinite == spoiled
        assert x.item() == 0.0
        return value.item()

    assert direction(spoiled=False) == pytest.approx((0.1 + 0.2) / 2)
    assert direction(spoiled=True) == pytest.approx(0.2)


@pytest.mark.parametrize("bad", [None, [torch.tensor([float("nan")])], [torch.tensor([float("inf")])]])
def test_a_bad_gradient_ends_its_job_and_leaves_the_iterate(bad: list[Tensor] | None) -> None:
    """Going on would compute at an iterate that is not finite, and spoil the running means of BatchNorm."""
    x = torch.tensor([7.0])
    server = ParameterServer(FedBuff(buffer=1, local_steps=3, local_lr=0.1), cluster(), [x])
    calls = []

    def compute(job: Job, position: int) -> list[Tensor] | None:
        calls.append(position)
        return [torch.ones(1)] if position == 0 else bad

    assert server.direction(compute) is None
    assert (calls, x.item(), server.nonfinite) == ([0, 1], 7.0, 1)


def test_an_exception_in_a_local_step_leaves_the_newest_iterate_in_place() -> None:
    x = torch.tensor([7.0])
    server = ParameterServer(FedBuff(buffer=1, local_steps=3, local_lr=0.1), cluster(), [x])
    address = x.data_ptr()

    def compute(job: Job, position: int) -> list[Tensor]:
        return [torch.ones(1) / (1 - position)] if position == 0 else [torch.tensor([1 // 0])]

    with pytest.raises(ZeroDivisionError):
        server.direction(compute)
    assert (x.data_ptr(), x.item()) == (address, 7.0)


def test_all_workers_pull_at_the_average_though_fast_ones_more_often() -> None:
    """Without noise and heterogeneity every worker sends the same, and the server converges to the common optimum."""
    x = torch.tensor([1.0], dtype=torch.float64)
    method = FedBuff(buffer=2, local_steps=5, local_lr=0.1)
    sgd = torch.optim.SGD([x], lr=1.0)
    for _ in simulate(method, cluster(), [x], sgd, lambda job: [x - 4.0], max_steps=200):
        pass
    assert x.item() == pytest.approx(4.0)


@pytest.mark.parametrize("name", ["buffer", "local_steps"])
@pytest.mark.parametrize("value", [0, -1, 1.5, True, "2", None])
def test_numbers_of_jobs_and_steps_are_integers_from_one(name: str, value: object) -> None:
    error, allowed = (ValueError, "at least 1") if type(value) is int else (TypeError, "an integer of at least 1")
    with pytest.raises(error, match=f"{name} must be {allowed}, got"):
        FedBuff(**{"buffer": 1, "local_steps": 1, "local_lr": 0.1, name: value})


@pytest.mark.parametrize("value", [0.0, -0.1, float("nan"), float("inf"), "0.1", None])
def test_a_local_step_size_is_a_finite_number_above_zero(value: object) -> None:
    error = ValueError if isinstance(value, float) else TypeError
    with pytest.raises(error, match="local_lr must be a finite number above 0, got"):
        FedBuff(1, 1, value)


@pytest.mark.parametrize("value", [-0.5, float("nan"), float("inf"), "1", True, None])
def test_a_staleness_exponent_is_a_finite_number_from_zero(value: object) -> None:
    error = ValueError if isinstance(value, float) else TypeError
    with pytest.raises(error, match="staleness_exponent must be a finite number of at least 0, got"):
        FedBuff(1, 1, 0.1, staleness_exponent=value)


def test_the_schedule_does_not_depend_on_who_asks() -> None:
    method = FedBuff(buffer=2, local_steps=3, local_lr=0.1)
    whole = list(islice(method.steps(cluster()), 20))
    assert list(islice(method.steps(cluster().start(gradients_per_job=3)), 20)) == whole
    assert [step.time for step in whole[:2]] == pytest.approx([5.1, 9.0])
