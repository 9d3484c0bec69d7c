"""Schedules of all methods against their rules written down naively, with many exact ties."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice, pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lightning_async.methods import (
    ASGD,
    IASGD,
    ClippedASGD,
    DelayAdaptiveASGD,
    FedBuff,
    MaleniaSGD,
    Method,
    MinibatchSGD,
    RennalaSGD,
    RingleaderASGD,
    RingmasterASGD,
)
from lightning_async.methods.dispatch import UniformDispatch
from lightning_async.simulation import (
    HalfNormalNoise,
    Link,
    RandomTimes,
    SimulatedCluster,
    SqrtTimes,
    Step,
    UniformTimes,
    WorkerTimes,
)
from tests.methods import naive_schedules as naive
from tests.simulation.naive_cluster import CyclicTimes

STEPS = 60
DURATIONS = st.one_of(st.integers(1, 3).map(float), st.floats(0.1, 5.0))
TIMES = st.lists(st.lists(DURATIONS, min_size=1, max_size=4), min_size=1, max_size=6).map(CyclicTimes)

RULES: list[tuple[Method, Callable[[WorkerTimes], Iterator[naive.NaiveStep]]]] = [
    (ASGD(), naive.asgd),
    (ClippedASGD(clip=1.0), naive.asgd),
    (DelayAdaptiveASGD("scale"), naive.asgd),
    (DelayAdaptiveASGD("drop"), lambda times: naive.dropping(times, times.num_workers)),
    (DelayAdaptiveASGD("drop", concurrency=1), partial(naive.dropping, concurrency=1)),
    *(
        (RingmasterASGD(threshold, stops), partial(naive.ringmaster, threshold=threshold, stops=stops))
        for threshold in (1, 2, 4, "adaptive")
        for stops in (True, False)
    ),
    *(
        (RennalaSGD(batch, stops), partial(naive.rennala, batch=batch, stops=stops))
        for batch in (1, 3, 8)
        for stops in (True, False)
    ),
    (MinibatchSGD(), naive.minibatch),
    (MaleniaSGD(), naive.malenia),
    *((MaleniaSGD(target), partial(naive.malenia, target=target)) for target in (1, 3, 8, 12.5)),
    (RingleaderASGD(), naive.ringleader),
    (IASGD(), naive.iasgd),
    *(
        (FedBuff(buffer, local_steps, local_lr=0.1), partial(naive.fedbuff, buffer=buffer, local_steps=local_steps))
        for buffer in (1, 3)
        for local_steps in (1, 4)
    ),
]
METHODS = [method for method, _ in RULES] + [ASGD("uniform"), ClippedASGD(clip=1.0, dispatch="uniform")]


def plain(step: Step) -> naive.NaiveStep:
    return step.index, step.time, tuple(job[:3] for job in step.jobs), step.discarded


@pytest.mark.parametrize(("method", "rule"), RULES, ids=[repr(method) for method, _ in RULES])
@settings(max_examples=15)
@given(times=TIMES)
def test_the_schedule_is_the_rule(
    method: Method, rule: Callable[[WorkerTimes], Iterator[naive.NaiveStep]], times: WorkerTimes
) -> None:
    schedule = map(plain, islice(method.steps(SimulatedCluster(times)), STEPS))
    assert list(schedule) == list(islice(rule(times), STEPS))


@settings(max_examples=30)
@given(times=TIMES, seed=st.integers(0, 2**64 - 1))
def test_uniform_dispatch_queues_jobs_at_the_workers_that_the_seed_draws(times: WorkerTimes, seed: int) -> None:
    cluster = SimulatedCluster(times, seed=seed)
    schedule = map(plain, islice(ASGD("uniform").steps(cluster), STEPS))
    assert list(schedule) == list(islice(naive.asgd(times, UniformDispatch(cluster)), STEPS))


@pytest.mark.parametrize("method", METHODS, ids=repr)
class TestEverySchedule:
    @pytest.fixture
    def cluster(self) -> SimulatedCluster:
        return SimulatedCluster(RandomTimes(7, "gamma", mean=[1, 1, 1, 2, 3, 5, 8]), seed=3)

    def test_begins_at_time_zero_however_often_and_in_whatever_turns_a_cluster_is_used(
        self, method: Method, cluster: SimulatedCluster
    ) -> None:
        expected = list(islice(method.steps(cluster), STEPS))
        first, second = method.steps(cluster), method.steps(cluster)
        assert list(islice(first, 10)) == expected[:10]
        assert list(islice(second, STEPS)) == expected
        assert list(islice(first, STEPS - 10)) == expected[10:]

    def test_runs_on_a_run_of_a_cluster_without_touching_it(self, method: Method, cluster: SimulatedCluster) -> None:
        run = cluster.start()
        turns = [method.steps(run), method.steps(run)]
        assert [next(turns[0]) for _ in range(STEPS)] == [next(turns[1]) for _ in range(STEPS)]
        assert run.now == 0.0

    def test_counts_steps_from_zero_and_time_never_runs_backwards(
        self, method: Method, cluster: SimulatedCluster
    ) -> None:
        steps = list(islice(method.steps(cluster), STEPS))
        assert [step.index for step in steps] == list(range(STEPS))
        assert all(before.time <= after.time for before, after in pairwise(steps))

    def test_uses_no_job_twice_and_none_that_is_staler_than_it_says(
        self, method: Method, cluster: SimulatedCluster
    ) -> None:
        steps = list(islice(method.steps(cluster), STEPS))
        used = [(job.worker, job.number) for step in steps for job in step.jobs]
        assert len(set(used)) == len(used)
        for step in steps:
            bound = method.max_delay(step.index)
            assert all(delay >= 0 and (bound is None or delay <= bound) for delay in step.delays)

    def test_says_how_many_jobs_a_step_uses(self, method: Method, cluster: SimulatedCluster) -> None:
        numbers = {len(step.jobs) for step in islice(method.steps(cluster), STEPS)}
        expected = method.jobs_per_step(cluster.num_workers)
        assert numbers == {expected} if expected is not None else len(numbers) > 1

    def test_says_how_many_jobs_a_step_of_a_single_worker_uses(self, method: Method) -> None:
        expected = method.jobs_per_step(1)
        assert all(len(step.jobs) == expected for step in islice(method.steps(SimulatedCluster(UniformTimes(1))), 9))

    def test_takes_as_long_as_its_messages_need(self, method: Method) -> None:
        """With equal workers and a message that takes 1/8 each way, every gradient takes 1 + 1/4 in place of 1."""
        method.bind(num_coordinates=100, bytes_per_coordinate=4.0)
        slow = method.steps(SimulatedCluster(UniformTimes(5), Link(latency=0.0625, bandwidth=6400.0)))
        fast = method.steps(SimulatedCluster(UniformTimes(5)))
        for with_link, without in zip(islice(slow, STEPS), fast, strict=False):
            work = method.local_steps
            assert with_link == without._replace(time=without.time * (work + 0.25) / work)


def test_a_finite_bandwidth_without_a_model_size_is_refused_at_once() -> None:
    with pytest.raises(RuntimeError, match=r"method\.bind\(num_coordinates"):
        ASGD().steps(SimulatedCluster(UniformTimes(2), Link(bandwidth=1.0)))


def test_a_job_takes_the_same_time_under_every_method() -> None:
    seen: dict[tuple[int, int], float] = {}
    shared = 0
    for method in METHODS:
        cluster = SimulatedCluster(HalfNormalNoise(SqrtTimes(5), scale=0.5), seed=9)
        for step in islice(method.steps(cluster), STEPS):
            for job in step.jobs:
                time = cluster.worker_time(job)
                shared += (job.worker, job.number) in seen
                assert seen.setdefault((job.worker, job.number), time) == time
    assert shared > STEPS


def test_a_subclass_may_build_on_the_schedule_of_its_base() -> None:
    class EverySecond(ASGD):
        def steps(self, cluster):
            for step in super().steps(cluster):
                assert step.time == cluster.now
                if step.index % 2:
                    yield step

    steps = islice(EverySecond().steps(SimulatedCluster(SqrtTimes(3))), 5)
    assert [step.index for step in steps] == [1, 3, 5, 7, 9]
