"""The time of a round: who steps how often, when values are read, when they are merged."""

import math
from fractions import Fraction
from itertools import islice

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from lightning_async import simulate
from lightning_async.methods import LOSCAR, DiLoCo, LocalSGD
from lightning_async.simulation import (
    FixedTimes,
    Link,
    NoArrivalError,
    PowerTimes,
    RandomTimes,
    SimulatedCluster,
    SinusoidalPower,
    UniformTimes,
    WorkerTimes,
)


def _cluster(times, latency=0.0, bandwidth=math.inf, seed=0):
    return SimulatedCluster(FixedTimes(times), Link(latency, bandwidth), seed)


def _bound(method, num_coordinates=1000, bytes_per_coordinate=4.0):
    method.bind(num_coordinates, bytes_per_coordinate)
    return method


def test_two_rounds_by_hand():
    cluster = _cluster([1.0, 2.5, 6.0], latency=3.0)
    first, second = islice(LOSCAR(0.5, compute_window=4.0).rounds(cluster), 2)
    assert (first.start, first.snapshot, first.end) == (0.0, 6.0, 9.0)  # worker 2 needs 6 for its first step
    assert (first.before, first.during) == ((4, 1, 1), (3, 1, 0))
    assert first.computing == (7.0, 5.0, 6.0)
    assert first.hidden == (3.0, 2.5, 0.0)
    assert first.idle == (2.0, 4.0, 3.0)
    times = [(step.time, step.jobs[0].worker, step.jobs[0].number) for step in first.steps]
    assert times == [
        (1.0, 0, 0),
        (2.0, 0, 1),
        (2.5, 1, 0),
        (3.0, 0, 2),
        (4.0, 0, 3),
        (6.0, 2, 0),
        (7.0, 0, 4),
        (8.0, 0, 5),
        (8.5, 1, 1),
        (9.0, 0, 6),
    ]
    assert (second.start, second.snapshot, second.end) == (9.0, 15.0, 18.0)
    assert second.steps[0].index == 10
    assert second.steps[0].jobs[0].version == 1


def test_blocking_workers_wait_while_the_message_travels_and_the_last_step_has_the_time_of_the_merge():
    (first,) = islice(LOSCAR(0.5, overlap=False, compute_window=4.0).rounds(_cluster([1.0, 2.5], latency=3.0)), 1)
    assert (first.before, first.during) == ((4, 1), (0, 0))
    assert [step.time for step in first.steps] == [1.0, 2.0, 2.5, 3.0, 7.0]
    assert first.idle == (3.0, 4.5)


def test_waiting_is_accounted_for_worker_by_worker():
    x = torch.zeros(3)
    cluster = _cluster([1.0, 3.0], latency=2.0)  # the slow one waits 1 for the message, and 2 while it travels
    method = LOSCAR(1.0, compute_window=4.0)
    running = simulate(method, cluster, [x], torch.optim.SGD([x], lr=0.1), lambda job: [x.clone()], max_time=12.0)
    for _ in running:
        pass
    metrics = running.local.metrics()
    assert (metrics["time/idle/0"], metrics["time/idle/1"]) == (0.0, 6.0)
    assert (metrics["time/idle"], metrics["time/idle_max"], metrics["time/hidden"]) == (3.0, 6.0, 2.0)


@given(
    tenths=st.lists(st.integers(1, 60), min_size=1, max_size=5),
    window=st.integers(60, 300),
    latency=st.integers(0, 200),
    overlap=st.booleans(),
)
@settings(max_examples=60)
def test_numbers_of_steps_are_those_of_exact_arithmetic_in_every_round(tenths, window, latency, overlap):
    cluster = _cluster([tenth / 10 for tenth in tenths], latency=latency / 10)
    method = LOSCAR(0.5, overlap=overlap, compute_window=window / 10)
    for done in islice(method.rounds(cluster), 20):
        assert done.before == tuple(Fraction(window) // tenth for tenth in tenths)
        assert done.during == tuple(Fraction(latency) // tenth if overlap else 0 for tenth in tenths)


@given(seed=st.integers(0, 1000), overlap=st.booleans())
@settings(max_examples=20)
def test_steps_come_in_order_of_time_with_all_numbers_and_every_round_ends_with_its_merge(seed, overlap):
    times = RandomTimes(4, "exponential", mean=[1.0, 1.0, 2.0, 5.0])
    cluster = SimulatedCluster(times, Link(latency=3.0), seed)
    next_number = [0] * 4
    last, index = 0.0, 0
    for r, done in enumerate(islice(LOSCAR(0.5, overlap=overlap, compute_window=30.0).rounds(cluster), 10)):
        assert done.start == last
        assert all(count >= 1 for count in done.before)
        assert len(done.steps) == sum(done.before) + sum(done.during)
        for step in done.steps:
            (job,) = step.jobs
            assert (step.index, job.version, job.number) == (index, r, next_number[job.worker])
            assert step.time >= last
            next_number[job.worker] += 1
            index, last = index + 1, step.time
        assert last == done.end
        assert done.snapshot == pytest.approx(max(done.start + 30.0, done.snapshot))


def test_a_step_ends_when_its_own_duration_says():
    times = RandomTimes(3, "gamma", mean=[1.0, 2.0, 3.0], shape=4.0)
    cluster = SimulatedCluster(times, Link(latency=5.0), seed=4)
    (first,) = islice(LOSCAR(0.5, compute_window=10.0).rounds(cluster), 1)
    for worker in range(3):
        mine = [step for step in first.steps if step.jobs[0].worker == worker]
        durations = [times.duration(worker, number, seed=4) for number in range(len(mine))]
        split = first.before[worker]
        ends = [sum(durations[: i + 1]) for i in range(split)]
        ends += [first.snapshot + sum(durations[split : i + 1]) for i in range(split, len(mine))]
        assert [step.time for step in mine[:-1]] == pytest.approx(ends[:-1])


def test_times_that_depend_on_the_start_are_asked_for_when_a_step_starts():
    times = PowerTimes([SinusoidalPower(mean=1.0, amplitude=0.9, period=10.0)] * 2)
    cluster = SimulatedCluster(times, Link(latency=2.0))
    for done in islice(LOSCAR(0.5, compute_window=8.0).rounds(cluster), 3):
        end = done.start
        for step in [step for step in done.steps if step.jobs[0].worker == 0][: done.before[0]]:
            end += times.duration(0, step.jobs[0].number, start=end)
            assert step.time == pytest.approx(end)


def test_doubling_the_bandwidth_halves_the_transmission_and_the_steps_made_meanwhile():
    method = _bound(LOSCAR(0.1, compute_window=4.0), num_coordinates=1000, bytes_per_coordinate=4.0)  # 400 bytes
    slow, fast = (
        next(method.rounds(_cluster([1.0, 2.0], latency=1.0, bandwidth=bandwidth))) for bandwidth in (25.0, 50.0)
    )
    assert (slow.communication, fast.communication) == (1.0 + 16.0, 1.0 + 8.0)
    assert (slow.during, fast.during) == ((17, 8), (9, 4))
    assert (slow.num_bytes, slow.coordinates) == (400.0, 100)
    assert slow.before == fast.before


def test_nothing_to_send_takes_no_time_not_even_the_latency():
    rounds = list(islice(_bound(LOSCAR(0.001, compute_window=4.0), 123).rounds(_cluster([1.0], latency=9.0)), 200))
    assert {(done.coordinates, done.communication) for done in rounds} == {(0, 0.0), (1, 9.0)}
    silent = next(LOSCAR(0.0, compute_window=4.0).rounds(_cluster([1.0], latency=9.0, bandwidth=1.0)))
    assert (silent.communication, silent.during) == (0.0, (0,))


def test_a_finite_bandwidth_needs_the_size_of_the_model():
    with pytest.raises(RuntimeError, match=r"call method\.bind"):
        next(LOSCAR(0.5, compute_window=4.0).rounds(_cluster([1.0], bandwidth=10.0)))


def test_without_the_size_of_the_model_a_message_takes_the_latency():
    assert next(LOSCAR(0.5, compute_window=4.0).rounds(_cluster([1.0], latency=2.0))).communication == 2.0


@pytest.mark.parametrize("method", [LocalSGD(2.0), DiLoCo(2.0)], ids=["local_sgd", "diloco"])
def test_dense_methods_send_everything_and_wait(method):
    done = next(_bound(method, 10).rounds(_cluster([1.0, 2.0], latency=1.0)))
    assert (done.coordinates, done.num_bytes, done.during) == (10, 40.0, (0, 0))


def test_a_schedule_starts_at_time_zero_however_often_it_is_asked_for():
    cluster, method = _cluster([1.0, 3.0], latency=2.0), LOSCAR(0.5, compute_window=4.0)
    assert list(islice(method.steps(cluster), 30)) == list(islice(method.steps(cluster), 30))


def test_workers_with_data_of_their_own_say_so_in_their_jobs():
    cluster = _cluster([1.0, 3.0])
    jobs = [step.jobs[0] for step in islice(LocalSGD(4.0).steps(cluster.start(sharded=True)), 5)]
    assert all(job.shard == job.worker for job in jobs)
    assert next(LocalSGD(4.0).steps(cluster)).jobs[0].shard is None


def test_two_methods_see_the_same_times():
    cluster = SimulatedCluster(RandomTimes(2, "exponential", mean=[1.0, 2.0]), seed=9)
    ends = [
        [step.time for step in next(method.rounds(cluster)).steps][:-1]
        for method in (LocalSGD(10.0), LOSCAR(0.1, compute_window=10.0))
    ]
    assert ends[0] == ends[1]


class _Given(WorkerTimes):
    def __init__(self, first: float, later: float) -> None:
        self.num_workers, self.first, self.later = 2, first, later

    def sampler(self, seed):
        return lambda worker, job, start: (self.later if job else self.first) if worker else 1.0


def test_a_worker_that_never_finishes_its_first_step_is_reported():
    with pytest.raises(NoArrivalError, match="worker 1 never finishes"):
        next(LocalSGD(4.0).rounds(SimulatedCluster(_Given(math.inf, 1.0))))


def test_a_worker_that_stops_after_its_first_step_is_waited_for_in_the_next_round():
    rounds = LocalSGD(4.0).rounds(SimulatedCluster(_Given(1.0, math.inf)))
    assert next(rounds).before == (4, 1)
    with pytest.raises(NoArrivalError):
        next(rounds)


class _NoTimeAtThree(WorkerTimes):
    num_workers = 2

    def sampler(self, seed):
        return lambda worker, job, start: 1e-17 if start == 3.0 else (3.0 if worker else 1.0 if start == 0.0 else 5.0)


def test_steps_that_end_at_the_snapshot_come_before_those_that_start_there_and_are_as_good_as_over():
    cluster = SimulatedCluster(_NoTimeAtThree(), Link(latency=1e-17))
    done = next(LOSCAR(0.5, compute_window=1.0).rounds(cluster))
    assert (done.before, done.during, done.snapshot, done.end) == ((1, 1), (1, 1), 3.0, 3.0)
    assert [step.jobs[0].worker for step in done.steps] == [0, 1, 0, 1]


def test_steps_that_take_no_time_are_refused():
    with pytest.raises(ValueError, match="must take time"):
        next(LocalSGD(4.0).rounds(SimulatedCluster(_Given(1.0, 0.0))))


@pytest.mark.parametrize("times", [UniformTimes(3, base=2.0), RandomTimes(3, "exponential", mean=[1e6] * 3)])
def test_a_window_shorter_than_the_fastest_step_is_refused(times):
    with pytest.raises(ValueError, match="shorter than the fastest local step"):
        LocalSGD(1.9).rounds(SimulatedCluster(times))


def test_a_window_as_long_as_the_fastest_step_is_allowed():
    assert next(LocalSGD(0.1 + 0.2).rounds(SimulatedCluster(UniformTimes(3, base=0.3)))).before == (1, 1, 1)


def test_a_round_with_a_senseless_number_of_steps_is_refused_before_it_is_made():
    with pytest.raises(ValueError, match="local steps"):
        next(LOSCAR(0.5, compute_window=4.0).rounds(_cluster([1.0], latency=1e12)))


def test_a_budget_that_ends_before_the_first_merge_is_refused_with_the_reason():
    method = _bound(LOSCAR(0.1, compute_window=4.0), 1000, 4.0)
    cluster = _cluster([1.0], bandwidth=1e-9)
    with pytest.raises(ValueError, match=r"first round of LOSCAR ends at logical time 4e\+11.*bandwidth=1e-09"):
        method.check_budget(cluster, max_time=1000.0)
    method.check_budget(_cluster([1.0], bandwidth=100.0), max_time=8.0)


def test_who_never_merges_may_have_any_budget():
    LOSCAR(0.0, compute_window=100.0).check_budget(_cluster([1.0]), max_time=50.0)
