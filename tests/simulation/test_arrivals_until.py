"""`SimulatedCluster.arrivals_until`: the clock with a deadline."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lightning_async.simulation import FixedTimes, Link, SimulatedCluster, UniformTimes
from tests.simulation.naive_cluster import CyclicTimes, NaiveCluster

DURATIONS = st.one_of(st.sampled_from([1.0, 1.0, 2.0, math.inf]), st.floats(0.1, 5.0))
TIMES = st.lists(st.lists(DURATIONS, min_size=1, max_size=3), min_size=1, max_size=5).map(CyclicTimes)
WAITS = st.lists(st.sampled_from([0.0, 0.5, 1.0, 2.5]), min_size=1, max_size=8)


@settings(max_examples=200)
@given(times=TIMES, waits=WAITS, cancels=st.booleans())
def test_a_deadline_gives_the_arrivals_of_a_search_through_lists(
    times: CyclicTimes, waits: list[float], cancels: bool
) -> None:
    cluster, naive = SimulatedCluster(times), NaiveCluster(times)
    for version, wait in enumerate(waits):
        for worker in range(times.num_workers):
            cluster.dispatch(worker, version)
            naive.dispatch(worker, version)
        until = cluster.now + wait
        expected = []
        while min(naive.ends) <= until:
            expected.append(naive.next_arrival())
        naive.busy += sum(map(bool, naive.lines)) * (until - naive.now)
        naive.now = until
        assert [(arrival.time, arrival.job[:3]) for arrival in cluster.arrivals_until(until)] == expected
        assert cluster.now == until
        assert cluster.busy_time == pytest.approx(naive.busy, abs=1e-9)
        assert cluster.arrived == naive.arrived
        if cancels:
            cluster.cancel_all()
            for worker in range(times.num_workers):
                while naive.cancel(worker):
                    pass


def test_a_job_that_fills_the_wait_exactly_but_for_rounding_is_in_time() -> None:
    cluster = SimulatedCluster(UniformTimes(1, base=0.1), Link(latency=0.3))
    for version in range(1000):
        cluster.dispatch(0, version)
        assert len(cluster.arrivals_until(cluster.now + (0.3 + 0.1 + 0.3))) == 1


def test_what_is_late_goes_on() -> None:
    cluster = SimulatedCluster(FixedTimes([1.0, 2.5]))
    cluster.dispatch_all(version=0)
    assert [arrival.worker for arrival in cluster.arrivals_until(2.0)] == [0]
    assert (cluster.now, cluster.next_arrival().time) == (2.0, 2.5)


def test_nothing_out_moves_only_the_clock() -> None:
    cluster = SimulatedCluster(FixedTimes([1.0]))
    assert cluster.arrivals_until(3.0) == []
    assert (cluster.now, cluster.busy_time) == (3.0, 0.0)


@pytest.mark.parametrize("time", [0.5, math.nan])
def test_the_clock_is_not_put_back(time: float) -> None:
    cluster = SimulatedCluster(FixedTimes([1.0]))
    cluster.arrivals_until(1.0)
    with pytest.raises(ValueError, match="cannot be put back"):
        cluster.arrivals_until(time)
