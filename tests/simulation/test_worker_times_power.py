"""The universal computation model, against numerical integration."""

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad

from lightning_async.simulation import (
    ConstantPower,
    FixedTimes,
    OutagePower,
    PiecewisePower,
    PowerTimes,
    SinusoidalPower,
)

times = st.floats(0.0, 1e3)
powers = st.floats(1e-6, 1e2) | st.sampled_from([0.0, 0.25, 1.0])


@st.composite
def piecewise(draw):
    gaps = draw(st.lists(st.floats(0.01, 10.0), min_size=1, max_size=6))
    edges = [sum(gaps[: count + 1]) for count in range(len(gaps))]
    values = draw(st.lists(powers, min_size=len(gaps), max_size=len(gaps)))
    if draw(st.booleans()):
        return PiecewisePower(edges[:-1], values, period=edges[-1])
    return PiecewisePower(edges, [*values, draw(powers)])


sinusoidal = st.builds(
    lambda mean, share, period, phase: SinusoidalPower(mean, share * mean, period, phase),
    st.floats(0.05, 50.0),
    st.floats(-1.0, 1.0) | st.just(1.0),
    st.floats(0.01, 100.0),
    st.floats(-7.0, 7.0),
)


@given(power=piecewise() | sinusoidal, start=times)
def test_a_job_ends_when_its_work_is_one(power, start):
    duration = power.duration(start)
    if duration < math.inf:
        assert power.work(start, start + duration) == pytest.approx(1.0, rel=1e-8, abs=1e-9 * power.work(0.0, start))


@given(power=piecewise() | sinusoidal, start=times)
def test_a_job_does_not_end_before_its_work_is_one(power, start):
    duration = min(power.duration(start), 1e6)
    assert power.work(start, start + 0.999 * duration) < 1.0


@given(power=piecewise(), start=times)
def test_a_job_ends_unless_the_power_runs_out(power, start):
    ends = power.duration(start) < math.inf
    if power.period is not None:
        assert ends == (power.work(0.0, 2 * power.period) > 0.0)
    elif power.values[-1] == 0.0:
        assert ends == (power.work(start, 1e9) >= 1.0 - 1e-9)
    else:
        assert ends


@pytest.mark.parametrize(
    "power",
    [
        ConstantPower(0.3),
        PiecewisePower([1.0, 2.5], [0.2, 0.0, 1.5]),
        PiecewisePower([0.3, 0.7], [2.0, 0.0, 0.1], period=1.1),
        OutagePower([(0.0, 0.5), (2.0, 2.25)], power=0.8),
        OutagePower([(0.2, 0.9)], period=1.0),
        SinusoidalPower(mean=0.4, amplitude=0.4, period=1.7, phase=2.0),
    ],
    ids=repr,
)
@pytest.mark.parametrize("start", [0.0, 0.6, 2.1, 31.4])
def test_numerical_integration_of_the_power_gives_one(power, start):
    end = start + power.duration(start)
    steps = [start + (end - start) * step / 500 for step in range(501)]
    work = sum(quad(power.at, low, high, limit=200)[0] for low, high in pairwise(steps))
    assert work == pytest.approx(1.0, abs=1e-4)


@given(power=piecewise() | sinusoidal, start=times, between=times, end=times)
def test_work_adds_up(power, start, between, end):
    whole = power.work(start, between) + power.work(between, end)
    assert whole == pytest.approx(power.work(start, end), rel=1e-9, abs=1e-9 * (1 + power.work(0.0, 1e3)))


@given(values=st.lists(st.floats(0.01, 100.0), min_size=1, max_size=5), start=times, job=st.integers(0, 1000))
def test_constant_power_is_fixed_times(values, start, job):
    universal, fixed = PowerTimes(values), FixedTimes([1.0 / value for value in values])
    assert universal.constant == fixed.constant
    assert not universal.depends_on_start
    assert [universal.duration(worker, job, start) for worker in range(len(values))] == list(fixed.constant)


@given(value=st.floats(0.01, 100.0), start=times)
def test_constant_power_in_pieces_is_constant_power(value, start):
    expected = pytest.approx(1.0 / value, rel=1e-9, abs=1e-9)
    assert PiecewisePower([1.0, 2.0], [value] * 3).duration(start) == expected
    assert PiecewisePower([0.5], [value] * 2, period=0.75).duration(start) == expected
    assert OutagePower([], power=value).duration(start) == 1.0 / value
    assert SinusoidalPower(value, 0.0, 3.0).duration(start) == expected


@pytest.mark.parametrize(
    "power",
    [PiecewisePower([1.5], [1.0, 0.25], period=4.0), SinusoidalPower(period=4.0)],
    ids=["piecewise", "sinusoidal"],
)
@given(start=st.floats(0.0, 10.0), periods=st.integers(1, 50))
def test_periodic_power_repeats(power, start, periods):
    assert power.duration(start + periods * 4.0) == pytest.approx(power.duration(start), rel=1e-9)


def test_outages_are_waited_for():
    power = OutagePower([(1.0, 3.0), (10.0, math.inf)])
    assert [power.duration(start) for start in (0.0, 0.5, 1.0, 2.5, 3.0, 9.0, 9.5)] == [1, 3, 3, 1.5, 1, 1, math.inf]


def test_a_job_that_ends_with_the_power_does_not_wait_for_its_return():
    tenths = PiecewisePower([10.0], [0.1, 0.0], period=100.0)
    assert tenths.duration(0.0) == 10.0
    assert OutagePower([(1.0, 9.0)], period=9.0).duration(27.0) == 1.0
    assert PiecewisePower([0.1, 0.2, 0.3], [1.0, 3.0, 2.0, 0.0]).duration(0.0) == math.inf
    assert PiecewisePower([0.1, 0.3, 0.45], [1.0, 3.0, 2.0, 0.0]).duration(0.0) == pytest.approx(0.45)


def test_adjacent_outages_are_one():
    assert OutagePower([(1.0, 2.0), (2.0, 3.0)]).duration(0.5) == OutagePower([(1.0, 3.0)]).duration(0.5)


def test_power_at_a_breakpoint_is_that_after_it():
    power = PiecewisePower([1.0, 2.0], [1.0, 2.0, 3.0], period=3.0)
    assert [power.at(time) for time in (0.0, 1.0, 2.0, 3.0, 4.5)] == [1.0, 2.0, 3.0, 1.0, 2.0]


def test_no_power_means_never():
    profiles = [0.0, PiecewisePower([1.0], [1.0, 0.0]), PiecewisePower([1.0], [0.0, 0.0], period=2.0)]
    universal = PowerTimes(profiles)
    assert [universal.duration(worker, 0, start=0.5) for worker in range(3)] == [math.inf] * 3


@pytest.mark.parametrize(
    ("make_model", "error", "message"),
    [
        (lambda: PowerTimes([]), ValueError, "at least one worker"),
        (lambda: PowerTimes(2.0), TypeError, "powers must be a sequence .* got 2.0"),
        (
            lambda: PowerTimes([1.0, "fast"]),
            TypeError,
            r"powers\[1\] must be a finite number of at least 0, got 'fast'",
        ),
        (lambda: PowerTimes([-1.0]), ValueError, r"powers\[0\] .* at least 0, got -1.0"),
        (lambda: ConstantPower(math.inf), ValueError, "value .* finite .* got inf"),
        (lambda: PiecewisePower([1.0], [1.0]), ValueError, "2 for 1 breakpoints, got 1"),
        (lambda: PiecewisePower([2.0, 1.0], [1.0] * 3), ValueError, "2.0 is not before 1.0"),
        (lambda: PiecewisePower([2.0], [1.0] * 2, period=2.0), ValueError, "end before the period, 2.0"),
        (lambda: PiecewisePower([0.0], [1.0] * 2), ValueError, r"breakpoints\[0\] .* above 0"),
        (lambda: PiecewisePower([1.0], [1.0, -1.0]), ValueError, r"values\[1\] .* at least 0"),
        (lambda: OutagePower([(2.0, 1.0)]), ValueError, r"outages\[0\] must end after it begins"),
        (lambda: OutagePower([(1.0, 3.0), (2.0, 4.0)]), ValueError, r"begin of outages\[1\] .* at least 3"),
        (lambda: OutagePower([(1.0, 3.0)], period=2.0), ValueError, "within the period, 2.0"),
        (lambda: OutagePower([(1.0, math.nan)]), ValueError, r"outages\[0\]"),
        (lambda: OutagePower([], power=0.0), ValueError, "power .* above 0"),
        (lambda: SinusoidalPower(mean=1.0, amplitude=1.5), ValueError, "amplitude must be between -mean and mean"),
        (lambda: SinusoidalPower(mean=0.0), ValueError, "mean .* above 0"),
        (lambda: SinusoidalPower(period=0.0), ValueError, "period .* above 0"),
    ],
)
def test_bad_powers_are_refused(make_model, error, message):
    with pytest.raises(error, match=message):
        make_model()
