"""`SimulatedCluster`: what arrives when, against a search through lists, and what it refuses."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lightning_async.simulation import (
    BernoulliStragglers,
    FixedTimes,
    Link,
    NoArrivalError,
    OutagePower,
    PowerTimes,
    RandomTimes,
    SimulatedCluster,
    UniformTimes,
    WorkerTimes,
)
from tests.simulation.naive_cluster import CyclicTimes, NaiveCluster

# Small integers make many exact ties.
DURATIONS = st.one_of(st.sampled_from([1.0, 1.0, 2.0, 3.0, math.inf]), st.floats(0.1, 5.0))
TIMES = st.lists(st.lists(DURATIONS, min_size=1, max_size=4), min_size=1, max_size=6).map(CyclicTimes)
CONSTANT = st.lists(st.sampled_from([0.5, 1.0, 1.5, 2.0]), min_size=1, max_size=6).map(FixedTimes)
OPERATIONS = st.lists(
    st.tuples(st.sampled_from(["dispatch"] * 3 + ["arrive"] * 3 + ["cancel"]), st.integers(0, 5)),
    min_size=15,
    max_size=60,
)


@settings(max_examples=300)
@given(times=st.one_of(TIMES, CONSTANT), operations=OPERATIONS)
def test_any_sequence_of_operations_gives_the_arrivals_of_a_search_through_lists(
    times: WorkerTimes, operations: list[tuple[str, int]]
) -> None:
    cluster, naive = SimulatedCluster(times), NaiveCluster(times)
    for version, (operation, number) in enumerate(operations):
        worker = number % times.num_workers
        if operation == "dispatch":
            cluster.dispatch(worker, version)
            naive.dispatch(worker, version)
        elif operation == "cancel":
            stopped = cluster.cancel(worker)
            assert (stopped and stopped[:3]) == naive.cancel(worker)
        elif (expected := naive.next_arrival()) is None:
            with pytest.raises(NoArrivalError):
                cluster.next_arrival()
        else:
            arrival = cluster.next_arrival()
            assert (arrival.time, arrival.job[:3]) == expected
            assert arrival.worker == arrival.job.worker
        assert cluster.now == naive.now
        assert cluster.busy_time == pytest.approx(naive.busy, abs=1e-9)
        assert cluster.arrived == naive.arrived


@settings(max_examples=50)
@given(times=st.one_of(TIMES, CONSTANT), dispatches=st.lists(st.integers(0, 5), max_size=20))
def test_cancel_all_stops_what_runs_and_what_waits_and_nothing_arrives_afterwards(
    times: WorkerTimes, dispatches: list[int]
) -> None:
    cluster = SimulatedCluster(times)
    jobs = [cluster.dispatch(number % times.num_workers, version=0) for number in dispatches]
    assert cluster.cancel_all() == sorted(jobs)
    with pytest.raises(NoArrivalError):
        cluster.next_arrival()


def test_simultaneous_arrivals_come_in_the_order_of_their_worker() -> None:
    cluster = SimulatedCluster(FixedTimes([3.0, 1.5, 1.0]))
    for worker in (2, 0, 1):
        cluster.dispatch(worker, version=0)
    order = []
    for _ in range(6):
        arrival = cluster.next_arrival()
        order.append((arrival.time, arrival.worker))
        cluster.dispatch(arrival.worker, version=0)
    assert order == [(1.0, 2), (1.5, 1), (2.0, 2), (3.0, 0), (3.0, 1), (3.0, 2)]


def test_a_job_that_is_due_at_this_instant_is_stopped_too() -> None:
    cluster = SimulatedCluster(UniformTimes(2))
    cluster.dispatch_all(version=0)
    assert cluster.next_arrival().worker == 0
    assert cluster.cancel(1) is not None
    cluster.dispatch(1, version=1)
    assert cluster.next_arrival()[:2] == (2.0, 1)


def test_numbers_count_stopped_jobs() -> None:
    cluster = SimulatedCluster(UniformTimes(1))
    cluster.dispatch(0, version=0)
    cluster.cancel(0)
    assert cluster.dispatch(0, version=0).number == 1


def test_a_job_that_never_finishes_can_be_stopped_and_the_worker_used_again() -> None:
    cluster = SimulatedCluster(CyclicTimes([[math.inf, 2.0], [1.0]]))
    cluster.dispatch_all(version=0)
    cluster.next_arrival()
    assert cluster.cancel(0).number == 0
    cluster.dispatch(0, version=1)
    assert cluster.next_arrival()[:2] == (3.0, 0)


def test_waiting_for_what_never_comes_says_how_many_workers_are_stuck() -> None:
    cluster = SimulatedCluster(BernoulliStragglers([1.0, 1.0, 1.0]))
    cluster.dispatch(0, version=0)
    cluster.dispatch(2, version=0)
    with pytest.raises(NoArrivalError, match="2 of 3 workers compute a job that never finishes"):
        cluster.next_arrival()


def test_a_job_costs_download_and_compute_and_upload() -> None:
    cluster = SimulatedCluster(FixedTimes([1.0, 5.0]), Link(latency=0.25, bandwidth=10.0)).start(message_bytes=5.0)
    cluster.dispatch_all(version=0)
    assert cluster.next_arrival().time == 0.75 + 1.0 + 0.75
    assert cluster.next_arrival().time == 0.75 + 5.0 + 0.75


def test_compute_begins_when_the_download_has_ended() -> None:
    outage = PowerTimes([OutagePower([(1.0, 10.0)])])
    cluster = SimulatedCluster(outage, Link(latency=2.0))
    cluster.dispatch(0, version=0)
    assert cluster.next_arrival().time == pytest.approx(10.0 + 1.0 + 2.0)


def test_worker_time_is_the_time_from_start_to_arrival() -> None:
    times = PowerTimes([OutagePower([(1.5, 4.0)]), 0.5])
    cluster = SimulatedCluster(times, Link(latency=0.125))
    started = {}
    for worker in cluster.workers:
        started[cluster.dispatch(worker, version=0)] = 0.0
    for _ in range(20):
        arrival = cluster.next_arrival()
        assert cluster.worker_time(arrival.job) == pytest.approx(arrival.time - started[arrival.job])
        started[cluster.dispatch(arrival.worker, version=0)] = cluster.now


def test_workers_that_are_never_idle_are_busy_all_the_time() -> None:
    cluster = SimulatedCluster(RandomTimes(5, "gamma"))
    cluster.dispatch_all(version=0)
    for _ in range(1000):
        cluster.dispatch(cluster.next_arrival().worker, version=0)
    assert cluster.busy_time == 5 * cluster.now


def test_the_queue_stays_short_however_many_jobs_are_stopped() -> None:
    cluster = SimulatedCluster(UniformTimes(50, base=1e9))
    cluster.dispatch_all(version=0)
    for k in range(20_000):
        cluster.cancel(k % 50)
        cluster.dispatch(k % 50, version=k)
    assert len(cluster._heap) < 250


def test_runs_of_one_cluster_are_independent_and_begin_at_time_zero() -> None:
    cluster = SimulatedCluster(RandomTimes(3, "exponential"), seed=4)
    runs = [cluster.start(), cluster.start()]
    seen: list[list[float]] = [[], []]
    for run in runs:
        run.dispatch_all(version=0)
    for turn in range(60):  # in turns of different lengths
        which = 0 if turn % 3 else 1
        arrival = runs[which].next_arrival()
        seen[which].append(arrival.time)
        runs[which].dispatch(arrival.worker, version=0)
    assert seen[0][: len(seen[1])] == seen[1]
    assert cluster.now == 0.0


def test_start_of_a_run_that_was_not_used_is_another_run() -> None:
    run = SimulatedCluster(UniformTimes(1)).start()
    other = run.start()
    run.dispatch(0, version=0)
    with pytest.raises(NoArrivalError):
        other.next_arrival()


@pytest.mark.parametrize("sharded", [False, True])
def test_the_shard_of_a_job_is_its_worker_if_workers_have_data_of_their_own(sharded: bool) -> None:
    run = SimulatedCluster(UniformTimes(3)).start(sharded=sharded)
    assert run.dispatch(2, version=0).shard == (2 if sharded else None)
    assert run.start().sharded is sharded


def test_times_depend_on_worker_and_number_and_not_on_the_order_of_events() -> None:
    cluster = SimulatedCluster(RandomTimes(2, "lognormal"), seed=1)
    alone = cluster.start()
    durations = []
    for _ in range(50):
        job = alone.dispatch(1, version=0)
        before = alone.now
        durations.append(alone.next_arrival().time - before)
        assert alone.worker_time(job) == pytest.approx(durations[-1])
    both = cluster.start()
    both.dispatch_all(version=0)
    while (arrival := both.next_arrival()).job.number < 49 or arrival.worker == 0:
        if arrival.worker == 1:
            assert both.worker_time(arrival.job) == pytest.approx(durations[arrival.job.number])
        both.dispatch(arrival.worker, version=0)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"times": [1.0, 2.0]}, TypeError, "FixedTimes"),
        ({"link": 0.5}, TypeError, "Link"),
        ({"seed": 1.5}, TypeError, "seed must be an integer"),
        ({"seed": True}, TypeError, "seed must be an integer"),
        ({"times": RandomTimes(2, "gamma"), "seed": -1}, ValueError, "seed"),
    ],
)
def test_wrong_arguments_are_refused(arguments: dict[str, object], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        SimulatedCluster(**{"times": UniformTimes(2), **arguments})


class _Given(WorkerTimes):
    def __init__(self, num_workers: int, constant: tuple[float, ...]) -> None:
        self.num_workers, self.constant = num_workers, constant

    def sampler(self, seed: int):
        return lambda worker, job, start: self.constant[worker]


@pytest.mark.parametrize(
    ("times", "message"),
    [
        (_Given(0, ()), "at least one worker"),
        (_Given(3, (1.0, 2.0)), "3 workers and 2 times"),
        (_Given(2, (1.0, math.nan)), "worker 1 the time nan"),
        (_Given(2, (-1.0, 1.0)), "worker 0 the time -1.0"),
    ],
)
def test_times_of_somebody_elses_making_are_checked(times: WorkerTimes, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        SimulatedCluster(times)


@pytest.mark.parametrize("duration", [-1.0, math.nan])
def test_a_duration_that_is_negative_or_nan_is_refused_when_it_is_met(duration: float) -> None:
    cluster = SimulatedCluster(CyclicTimes([[1.0, duration]]))
    cluster.dispatch(0, version=0)
    cluster.next_arrival()
    with pytest.raises(ValueError, match="job 1 of worker 0"):
        cluster.dispatch(0, version=1)


def test_a_finite_bandwidth_without_a_size_is_refused() -> None:
    cluster = SimulatedCluster(UniformTimes(1), Link(bandwidth=10.0))
    with pytest.raises(RuntimeError, match="message_bytes"):
        cluster.dispatch(0, version=0)


@pytest.mark.parametrize("worker", [-1, 2])
def test_there_are_no_other_workers(worker: int) -> None:
    cluster = SimulatedCluster(UniformTimes(2))
    with pytest.raises(IndexError, match=f"numbered 0..1, got {worker}"):
        cluster.dispatch(worker, version=0)
    with pytest.raises(IndexError, match=f"numbered 0..1, got {worker}"):
        cluster.cancel(worker)
