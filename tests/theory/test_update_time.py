"""H_m and t(R) against the schedules that they bound."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lightning_async.methods import RennalaSGD, RingmasterASGD
from lightning_async.simulation import (
    ConstantPower,
    FixedTimes,
    LinearTimes,
    OutagePower,
    PowerTimes,
    SimulatedCluster,
    SinusoidalPower,
    SqrtTimes,
    TwoSpeedTimes,
    UniformTimes,
)
from lightning_async.theory import (
    harmonic_times,
    rennala_time,
    ringmaster_time,
    update_time,
    update_time_universal,
)

WORKERS = 8
FIXED = [
    UniformTimes(WORKERS),
    SqrtTimes(WORKERS),
    LinearTimes(WORKERS),
    TwoSpeedTimes(WORKERS, slowdown=10.0),
    FixedTimes([1.0, 3.3, 0.7, 100.0, 2.1, 2.1, 9.0, 5.5]),
]
IDS = ["uniform", "sqrt", "linear", "two speeds", "irregular"]


def _update_times(method, times, updates: int) -> np.ndarray:
    schedule = method.steps(SimulatedCluster(times))
    return np.array([0.0] + [step.time for step, _ in zip(schedule, range(updates), strict=False)])


def _fixed(times) -> list[float]:
    return [times.duration(worker, 0) for worker in range(times.num_workers)]


@settings(max_examples=50)
@given(times=st.lists(st.floats(0.01, 100.0), min_size=1, max_size=20))
def test_harmonic_times_lie_between_the_fastest_and_the_slowest_counted(times):
    means = harmonic_times(times)
    slowest = np.sort(times)
    assert (means >= slowest[0] * (1 - 1e-12)).all()
    assert (means <= slowest * (1 + 1e-12)).all()
    assert (np.diff(means) >= -1e-12 * means[1:]).all()


def test_a_dead_worker_costs_nothing():
    assert update_time([1.0, 2.0, math.inf], 5) == update_time([1.0, 2.0], 5)


@pytest.mark.parametrize("times", FIXED, ids=IDS)
@pytest.mark.parametrize("threshold", [1, 2, 5, 8, 20])
@pytest.mark.parametrize("stops", [True, False], ids=["stops", "no stops"])
def test_no_consecutive_ringmaster_updates_take_longer_than_the_bound(times, threshold, stops):
    moments = _update_times(RingmasterASGD(threshold, stops=stops), times, 400)
    longest = (moments[threshold:] - moments[:-threshold]).max()
    assert longest <= update_time(_fixed(times), threshold) * (1 + 1e-9)


@pytest.mark.parametrize("times", FIXED, ids=IDS)
@pytest.mark.parametrize("threshold", [1, 2, 5, 8, 20])
def test_predicted_time_of_ringmaster_holds_within_a_factor_of_four(times, threshold):
    measured = _update_times(RingmasterASGD(threshold), times, 400)[-1]
    predicted = ringmaster_time(_fixed(times), threshold, 400)
    assert measured <= predicted * (1 + 1e-9) <= 4 * measured * (1 + 1e-9)


@pytest.mark.parametrize("times", FIXED, ids=IDS)
@pytest.mark.parametrize("batch", [1, 3, 8, 30])
def test_predicted_time_of_rennala_holds_within_a_factor_of_four(times, batch):
    measured = _update_times(RennalaSGD(batch), times, 50)[-1]
    predicted = rennala_time(_fixed(times), batch, 50)
    assert measured <= predicted * (1 + 1e-9) <= 4 * measured * (1 + 1e-9)


@settings(max_examples=50)
@given(times=st.lists(st.floats(0.01, 100.0), min_size=1, max_size=12), batch=st.integers(1, 40))
def test_gradients_of_a_common_start_arrive_within_the_bound_and_not_before_a_quarter_of_it(times, batch):
    arrivals = np.sort(np.concatenate([time * np.arange(1, batch + 1) for time in times]))
    exact = arrivals[batch - 1]
    assert exact <= update_time(times, batch) * (1 + 1e-9)
    assert update_time(times, batch) <= 4 * exact * (1 + 1e-9)


PROFILES = {
    "constant": [ConstantPower(1.0 / (1 + worker)) for worker in range(WORKERS)],
    "periodic": [SinusoidalPower(1.0, 0.9, period=3.0 + worker, phase=worker) for worker in range(WORKERS)],
    "outages": [OutagePower([(5.0, 5.0 + 3 * worker)], period=60.0) for worker in range(1, WORKERS + 1)],
    "one lives": [ConstantPower(0.5), *(OutagePower([(2.0, math.inf)]) for _ in range(WORKERS - 1))],
}


@pytest.mark.parametrize("powers", PROFILES.values(), ids=PROFILES.keys())
@pytest.mark.parametrize("threshold", [1, 4, 12])
@pytest.mark.parametrize("stops", [True, False], ids=["stops", "no stops"])
def test_universal_bound_holds_wherever_the_updates_start(powers, threshold, stops):
    moments = _update_times(RingmasterASGD(threshold, stops=stops), PowerTimes(powers), 150)
    for first in range(0, len(moments) - threshold, 7):
        taken = moments[first + threshold] - moments[first]
        assert taken <= update_time_universal(powers, threshold, moments[first]) * (1 + 1e-6)


@pytest.mark.parametrize("powers", PROFILES.values(), ids=PROFILES.keys())
@pytest.mark.parametrize("threshold", [1, 4, 12])
def test_universal_bound_is_within_a_factor_of_eight_over_a_run(powers, threshold):
    moments = _update_times(RingmasterASGD(threshold), PowerTimes(powers), 12 * threshold)
    predicted = 0.0
    for _ in range(12):
        predicted += update_time_universal(powers, threshold, predicted)
    assert moments[-1] <= predicted * (1 + 1e-6)
    assert predicted <= 8 * moments[-1]


def test_universal_time_of_constant_powers_is_the_smallest_that_holds():
    times = np.array([1.0, 2.5, 7.0])
    found = update_time_universal([ConstantPower(1 / t) for t in times], 9)
    count = lambda t: np.floor(t / (4 * times) * (1 + 1e-9)).sum()  # noqa: E731
    assert count(found) >= 9 > count(found * (1 - 1e-6))


def test_workers_that_never_do_enough_take_for_ever():
    assert update_time_universal([OutagePower([(1.0, math.inf)])], 2) == math.inf


def test_updates_are_counted_in_blocks_of_the_threshold():
    assert ringmaster_time([1.0, 2.0], 4, updates=9) == 3 * update_time([1.0, 2.0], 4)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: harmonic_times([]), "give one positive time"),
        (lambda: harmonic_times([[1.0]]), r"shape \(1, 1\)"),
        (lambda: harmonic_times([1.0, 0.0]), "times holds 0.0"),
        (lambda: harmonic_times([1.0, math.nan]), "times holds nan"),
        (lambda: harmonic_times([math.inf]), "all infinite"),
        (lambda: update_time([1.0], 0), "threshold must be at least 1, got 0"),
        (lambda: rennala_time([1.0], 0, 1), "batch must be at least 1, got 0"),
        (lambda: ringmaster_time([1.0], 1, 0), "updates must be at least 1, got 0"),
        (lambda: update_time_universal([], 1), "powers is empty"),
        (
            lambda: update_time_universal([ConstantPower(1.0)], 1, start=-1.0),
            "start must be a finite number of at least 0, got -1.0",
        ),
    ],
)
def test_impossible_arguments_are_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_a_fractional_threshold_is_refused():
    with pytest.raises(TypeError, match=r"threshold must be an integer of at least 1, got 2\.5"):
        update_time([1.0], 2.5)
