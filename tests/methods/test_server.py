"""`ParameterServer`: which iterate a gradient is taken at, what is kept, what is left out, what is restored."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from itertools import islice

import pytest
import torch
from torch import Tensor

from lightning_async.methods import (
    ASGD,
    IASGD,
    ClippedASGD,
    DelayAdaptiveASGD,
    FedBuff,
    Gradient,
    MaleniaSGD,
    Method,
    MinibatchSGD,
    RennalaSGD,
    RingleaderASGD,
    RingmasterASGD,
)
from lightning_async.methods.server import NonFiniteGradientError, ParameterServer
from lightning_async.simulation import Job, RandomTimes, SimulatedCluster, TwoSpeedTimes, UniformTimes

N = 8
METHODS: list[Method] = [
    ASGD(),
    ASGD("uniform"),
    ClippedASGD(clip=0.5),
    DelayAdaptiveASGD("scale"),
    DelayAdaptiveASGD("drop", concurrency=3),
    *(RingmasterASGD(threshold, stops) for threshold in (1, 2, 5, "adaptive") for stops in (True, False)),
    RennalaSGD(batch=5),
    RennalaSGD(batch=5, stops=False),
    MinibatchSGD(),
    MaleniaSGD(),
    MaleniaSGD(target=20),
    RingleaderASGD(),
    IASGD(),
    FedBuff(buffer=3, local_steps=1, local_lr=0.1),
]
EVERY_METHOD = pytest.mark.parametrize("method", METHODS, ids=repr)


def cluster() -> SimulatedCluster:
    return SimulatedCluster(RandomTimes(N, "gamma", mean=[1, 1, 1, 1, 2, 3, 5, 8]), seed=5)


def make(method: Method, on_nonfinite: str = "discard") -> ParameterServer:
    parameters = [torch.zeros(3), torch.zeros(2, 2)]
    return ParameterServer(method, cluster(), parameters, on_nonfinite=on_nonfinite)


def ones(job: Job, position: int) -> Gradient:
    return [torch.ones(3), torch.ones(2, 2)]


def step(server: ParameterServer, compute=ones) -> None:
    """x_{k+1} = x_k + 1, so that an iterate tells its version."""
    server.direction(compute)
    server.before_update()
    for p in server.parameters:
        p.add_(1.0)
    server.after_update()


@EVERY_METHOD
def test_a_gradient_is_taken_at_the_version_of_its_job(method: Method) -> None:
    server = make(method)

    def compute(job: Job, position: int) -> Gradient:
        assert all(bool((p == job.version).all()) for p in server.parameters)
        assert job == server.next_step().jobs[position]
        return ones(job, position)

    for k in range(80):
        step(server, compute)
        assert all(bool((p == k + 1).all()) for p in server.parameters)


@EVERY_METHOD
def test_one_gradient_is_computed_per_job_that_is_used(method: Method) -> None:
    computed: list[Job] = []

    def compute(job: Job, position: int) -> Gradient:
        computed.append(job)
        return ones(job, position)

    server = make(method)
    for _ in range(80):
        step(server, compute)
    assert computed == [job for step in islice(method.steps(cluster()), 80) for job in step.jobs]


@pytest.mark.parametrize("num_workers", [8, 64])
def test_ringmaster_with_2_computes_one_gradient_per_update_however_much_is_discarded(num_workers: int) -> None:
    calls = 0

    def compute(job: Job, position: int) -> Gradient:
        nonlocal calls
        calls += 1
        return [torch.ones(1)]

    server = ParameterServer(RingmasterASGD(2), SimulatedCluster(TwoSpeedTimes(num_workers, 4.0)), [torch.zeros(1)])
    for _ in range(200):
        step(server, compute)
    assert calls == 200
    assert server.discarded > 200


@EVERY_METHOD
def test_copies_of_the_parameters_never_exceed_workers_or_threshold(method: Method) -> None:
    """The parameters themselves and a copy that waits to be used again included."""
    server = make(method)
    for k in range(200):
        server.direction(ones)
        server.before_update()
        bound = method.max_delay(k + 1)
        assert server.versions.num_copies <= min(N, N if bound is None else bound + 1)
        server.after_update()


@pytest.mark.parametrize(
    "method", [MinibatchSGD(), RennalaSGD(4), RennalaSGD(4, stops=False), RingmasterASGD(1)], ids=repr
)
def test_nothing_is_copied_when_no_stale_gradient_is_used(method: Method) -> None:
    server = make(method)
    for _ in range(50):
        step(server)
        assert server.versions.num_copies == 1


def test_with_one_worker_nothing_is_copied() -> None:
    server = ParameterServer(ASGD(), SimulatedCluster(UniformTimes(1)), [torch.zeros(2)])
    for _ in range(20):
        step(server, lambda job, position: [torch.ones(2)])
        assert server.versions.num_copies == 1


@EVERY_METHOD
def test_counts_and_time_are_those_of_the_schedule(method: Method) -> None:
    server = make(method)
    for _ in range(50):
        step(server)
    expected = list(islice(method.steps(cluster()), 50))
    assert server.completed == 50
    assert server.logical_time == expected[-1].time
    assert server.discarded == sum(step.discarded for step in expected)


def test_the_next_step_stays_the_same_until_it_is_made() -> None:
    server = make(ASGD())
    first = server.next_step()
    assert server.next_step() is first
    with pytest.raises(ZeroDivisionError):
        server.direction(lambda job, position: 1 / 0)
    assert server.next_step() is first
    step(server)
    assert server.next_step().index == 1


def test_an_exception_in_a_stale_gradient_leaves_the_newest_iterate_in_place() -> None:
    server = make(ASGD())
    while server.next_step().delays[0] == 0:
        step(server)
    newest = [p.clone() for p in server.parameters]
    addresses = [p.data_ptr() for p in server.parameters]
    with pytest.raises(ZeroDivisionError):
        server.direction(lambda job, position: 1 / 0)
    assert all(map(torch.equal, server.parameters, newest))
    assert [p.data_ptr() for p in server.parameters] == addresses


def _spoiled(jobs: Sequence[int], value: float | None):
    """Gradients that are one plus the position, except at some positions."""

    def compute(job: Job, position: int) -> Gradient | None:
        if position not in jobs:
            return [torch.full((3,), position + 1.0), torch.full((2, 2), position + 1.0)]
        return None if value is None else [torch.ones(3), torch.tensor([[1.0, value], [1.0, 1.0]])]

    return compute


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf"), None])
def test_a_mean_is_over_the_gradients_that_are_finite(value: float | None) -> None:
    server = make(RennalaSGD(batch=4))
    first, second = server.direction(_spoiled([0, 2], value))
    assert torch.equal(first, torch.full((3,), 3.0))
    assert torch.equal(second, torch.full((2, 2), 3.0))
    assert server.nonfinite == 2


@EVERY_METHOD
def test_a_step_without_a_finite_gradient_has_no_direction_and_changes_nothing_in_the_schedule(method: Method) -> None:
    server = make(method)
    steps = []
    for k in range(30):
        steps.append(server.next_step())
        spoiled = range(1_000) if k % 3 == 0 else ()
        direction = server.direction(_spoiled(spoiled, float("nan")))
        assert (direction is None) == (k % 3 == 0)
        server.before_update()
        server.after_update()
    assert steps == list(islice(method.steps(cluster()), 30))
    assert server.nonfinite == sum(len(step.jobs) for step in steps[::3])
    assert server.discarded == sum(step.discarded for step in steps)


@pytest.mark.parametrize(("value", "what"), [(float("nan"), "not finite"), (None, "missing")])
def test_raise_names_the_job(value: float | None, what: str) -> None:
    server = make(ASGD(), on_nonfinite="raise")
    with pytest.raises(NonFiniteGradientError, match=rf"Job\(worker=\d, version=0, .* in step 0 is {what}"):
        server.direction(_spoiled([0], value))


@EVERY_METHOD
def test_resuming_at_every_step_equals_the_run_that_was_not_stopped(method: Method) -> None:
    def drive(server: ParameterServer, number: int) -> list[Tensor]:
        history = []
        while server.completed < number:
            direction = server.direction(lambda job, position: [p.cos() * (1 + job.worker) for p in server.parameters])
            server.before_update()
            for p, g in zip(server.parameters, direction, strict=True):
                p.sub_(g, alpha=0.1)
            server.after_update()
            history.append(torch.cat([p.flatten() for p in server.parameters]))
        return history

    whole = drive(make(method), 40)
    for stop in range(40):
        stopped = make(method)
        drive(stopped, stop)
        if stop % 2:
            stopped.next_step()  # looking at the next step must make no difference
        state = copy.deepcopy(stopped.state_dict())
        resumed = make(method)
        for p, old in zip(resumed.parameters, stopped.parameters, strict=True):
            p.copy_(old)
        resumed.load_state_dict(state)
        assert (resumed.completed, resumed.discarded) == (stopped.completed, stopped.discarded)
        assert resumed.logical_time == stopped.logical_time
        rest = drive(resumed, 40)
        assert all(map(torch.equal, rest, whole[stop:]))


def test_a_state_is_not_loaded_into_a_run_that_has_begun() -> None:
    server = make(ASGD())
    state = server.state_dict()
    step(server)
    with pytest.raises(RuntimeError, match="before the first step"):
        server.load_state_dict(state)


def test_an_iterate_that_was_not_kept_is_asked_for_with_a_clear_error() -> None:
    class Late(ASGD):
        def max_delay(self, index: int) -> int:
            return 0

    server = make(Late())
    while server.next_step().delays[0] == 0:
        step(server)
    with pytest.raises(RuntimeError, match="iterate 0 is not available any more"):
        step(server)


def test_there_must_be_something_to_train() -> None:
    with pytest.raises(ValueError, match="nothing to train"):
        ParameterServer(ASGD(), cluster(), [])


def test_on_nonfinite_is_one_of_two() -> None:
    with pytest.raises(ValueError, match="'ignore'"):
        make(ASGD(), on_nonfinite="ignore")


@pytest.mark.parametrize("method", [IASGD(), RingleaderASGD()], ids=repr)
def test_the_state_of_a_method_belongs_to_the_run_that_began_last(method: Method) -> None:
    first = make(method)
    step(first)
    second = make(method)
    step(second)
    with pytest.raises(RuntimeError, match=f"this {type(method).__name__} object has begun another run since"):
        step(first)
    step(second)


def test_a_method_without_a_state_may_make_several_runs_at_once() -> None:
    method = RingmasterASGD(3)
    first, second, alone = make(method), make(method), make(RingmasterASGD(3))
    for _ in range(9):
        for server in (first, second, alone):
            step(server)
    assert first.logical_time == second.logical_time == alone.logical_time
