"""What is known about the schedules of the methods on the clusters of the papers."""

from __future__ import annotations

from itertools import islice

import numpy as np
import pytest

from lightning_async.methods import ASGD, DelayAdaptiveASGD, Method, MinibatchSGD, RennalaSGD, RingmasterASGD
from lightning_async.simulation import (
    BernoulliStragglers,
    FixedTimes,
    HalfNormalNoise,
    NoArrivalError,
    RandomTimes,
    SimulatedCluster,
    SqrtTimes,
    Step,
    TwoSpeedTimes,
    UniformTimes,
)


def steps(method: Method, cluster: SimulatedCluster, number: int = 500) -> list[Step]:
    return list(islice(method.steps(cluster), number))


def two_speeds(slowdown: float = 4.0) -> SimulatedCluster:
    return SimulatedCluster(TwoSpeedTimes(16, slowdown))


@pytest.mark.parametrize("slowdown", [4.0, 8.0])
def test_vanilla_makes_an_update_every_inverse_of_the_sum_of_speeds(slowdown: float) -> None:
    period = int(8 * slowdown + 8)  # updates in `slowdown` units of time, exactly
    last = steps(ASGD(), two_speeds(slowdown), 50 * period)[-1]
    assert last.time / (last.index + 1) == 1 / (8 + 8 / slowdown)


@pytest.mark.parametrize(("slowdown", "expected"), [(4.0, 0.3275), (8.0, 0.643)])
def test_uniform_dispatch_waits_for_the_slow_half(slowdown: float, expected: float) -> None:
    """Mean logical time per update as stated for the federated algorithm; ten runs give it a standard error."""
    times = [
        steps(ASGD("uniform"), SimulatedCluster(TwoSpeedTimes(16, slowdown), seed=seed), 8_000)[-1].time / 8_000
        for seed in range(10)
    ]
    assert abs(np.mean(times) - expected) < 4 * np.std(times, ddof=1) / np.sqrt(10) + 0.0005 * (slowdown / 4)


def test_ringmaster_with_a_threshold_beyond_every_delay_is_vanilla() -> None:
    """With equal workers no delay exceeds n - 1."""
    for n in (1, 5, 16):
        cluster = SimulatedCluster(UniformTimes(n))
        assert steps(RingmasterASGD(n), cluster) == steps(ASGD(), cluster)


@pytest.mark.parametrize("stops", [True, False])
def test_ringmaster_with_40_is_vanilla_on_two_speeds_and_with_39_is_not(stops: bool) -> None:
    vanilla = steps(ASGD(), two_speeds())
    assert steps(RingmasterASGD(40, stops), two_speeds()) == vanilla
    assert steps(RingmasterASGD(39, stops), two_speeds()) != vanilla


@pytest.mark.parametrize("threshold", [8, 16, 32])
def test_ringmaster_never_uses_a_slow_worker_below_33(threshold: int) -> None:
    """What is used, and when, is the same for the three; how often the slow are stopped is not."""
    used = [step[:3] for step in steps(RingmasterASGD(threshold), two_speeds(), 200)]
    assert all(job.worker < 8 for _, _, jobs in used for job in jobs)
    fast = [(index, time, jobs[0].worker) for index, time, jobs in used]
    reference = [
        (index, time, jobs[0].worker) for index, time, jobs, _ in steps(ASGD(), SimulatedCluster(UniformTimes(8)), 200)
    ]
    assert fast == reference


@pytest.mark.parametrize("threshold", [33, 36, 39])
def test_ringmaster_uses_some_of_the_slow_gradients_from_33_to_39(threshold: int) -> None:
    schedule = steps(RingmasterASGD(threshold), two_speeds(), 2_000)
    slow = sum(job.worker >= 8 for step in schedule for job in step.jobs)
    assert 0 < slow < sum(job.worker >= 8 for step in steps(ASGD(), two_speeds(), 2_000) for job in step.jobs)


def test_with_stops_every_arrival_is_used() -> None:
    """Discarded are the stopped jobs alone: as many arrivals as updates."""
    cluster = SimulatedCluster(RandomTimes(10, "pareto"))
    for step in steps(RingmasterASGD(3), cluster):
        assert step.delays[0] < 3
    arrived = {job.number for step in steps(RingmasterASGD(3), cluster) for job in step.jobs if job.worker == 0}
    assert len(arrived) < max(arrived)  # numbers of stopped jobs are used up


def test_stops_let_slow_workers_begin_again_earlier() -> None:
    """One worker takes 1, the other between 1.5 and 3: stopped at once when stale, it is never used with R = 1."""
    cluster = SimulatedCluster(FixedTimes([1.0, 1.5]))
    with_stops, without = steps(RingmasterASGD(1), cluster, 6), steps(RingmasterASGD(1, stops=False), cluster, 6)
    assert [step.time for step in with_stops] == [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
    assert [step.discarded for step in with_stops] == [0, 1, 1, 1, 1, 1]
    assert [step.discarded for step in without] == [0, 1, 0, 1, 1, 0]


def test_a_job_that_has_become_useless_is_stopped_although_it_is_due_now() -> None:
    schedule = steps(RingmasterASGD(1), SimulatedCluster(UniformTimes(3)), 4)
    assert [(step.time, step.jobs[0].worker, step.jobs[0].number, step.discarded) for step in schedule] == [
        (1.0, 0, 0, 0),
        (2.0, 0, 1, 2),
        (3.0, 0, 2, 2),
        (4.0, 0, 3, 2),
    ]


def test_the_adaptive_threshold_is_the_smallest_delay_that_is_too_large() -> None:
    method = RingmasterASGD("adaptive")
    for k in range(2_000):
        allowed = method.threshold_at(k) - 1
        assert allowed**2 < max(1, k) <= (allowed + 1) ** 2


def test_a_ringmaster_that_waits_for_a_worker_that_never_finishes_keeps_no_list_of_what_has_arrived() -> None:
    schedule = RingmasterASGD(10**9).steps(SimulatedCluster(BernoulliStragglers([0.0, 0.0, 1.0])))
    for _ in islice(schedule, 5_000):
        pass
    assert len(schedule.gi_frame.f_locals["by_version"]) < 100


def test_rennala_wastes_the_unfinished_work_of_all_workers_but_the_last() -> None:
    schedule = steps(RennalaSGD(batch=16), two_speeds(), 50)
    assert [step.discarded for step in schedule] == [0] + [15] * 49
    assert all(job.worker < 8 for step in schedule for job in step.jobs)
    assert [step.time for step in schedule[:3]] == [2.0, 4.0, 6.0]


def test_rennala_without_stops_wastes_most_of_the_work_when_times_are_tied() -> None:
    n = 16
    schedule = steps(RennalaSGD(batch=1, stops=False), SimulatedCluster(UniformTimes(n)), 50)
    assert sum(step.discarded for step in schedule) >= (n - 1) * 49


def test_rennala_takes_several_gradients_of_a_fast_worker() -> None:
    (first,) = steps(RennalaSGD(batch=4), SimulatedCluster(FixedTimes([1.0, 2.5])), 1)
    assert [job.worker for job in first.jobs] == [0, 0, 1, 0]


def test_minibatch_waits_for_the_slowest_of_every_round() -> None:
    cluster = SimulatedCluster(HalfNormalNoise(SqrtTimes(6), scale=0.5), seed=2)
    previous = 0.0
    for step in steps(MinibatchSGD(), cluster, 50):
        assert sorted(job.worker for job in step.jobs) == list(cluster.workers)
        assert step.time - previous == pytest.approx(max(map(cluster.worker_time, step.jobs)))
        previous = step.time


def test_minibatch_cannot_do_without_a_worker() -> None:
    with pytest.raises(NoArrivalError, match="does not wait for every worker"):
        steps(MinibatchSGD(), SimulatedCluster(BernoulliStragglers([0.0, 1.0])))


def test_vanilla_can_do_without_a_worker() -> None:
    schedule = steps(ASGD(), SimulatedCluster(BernoulliStragglers([0.0, 1.0])), 20)
    assert {step.jobs[0].worker for step in schedule} == {0}


class TestDelayAdaptive:
    def test_the_step_shrinks_with_the_delay_beyond_the_concurrency(self) -> None:
        method = DelayAdaptiveASGD()
        multipliers = {step.delays[0]: method.lr_multiplier(step) for step in steps(method, two_speeds())}
        assert multipliers == {delay: min(1.0, 16 / max(delay, 1)) for delay in multipliers}
        assert min(multipliers.values()) == 16 / 39

    def test_the_concurrency_can_be_given(self) -> None:
        method = DelayAdaptiveASGD(concurrency=2)
        assert {step.delays[0]: method.lr_multiplier(step) for step in steps(method, two_speeds())}[39] == 2 / 39

    def test_drop_uses_the_full_step_or_none(self) -> None:
        method = DelayAdaptiveASGD("drop")
        schedule = steps(method, two_speeds())
        assert {method.lr_multiplier(step) for step in schedule} == {1.0}
        assert max(step.delays[0] for step in schedule) <= 16
        assert sum(step.discarded for step in schedule) > 0
