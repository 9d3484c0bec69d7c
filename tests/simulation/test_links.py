"""Durations of messages."""

import math
from dataclasses import FrozenInstanceError

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lightning_async.simulation import Link


@given(latency=st.floats(0.0, 1e6), bandwidth=st.floats(1e-3, 1e12), num_bytes=st.integers(0, 2**50))
def test_time_is_latency_plus_size_over_bandwidth(latency, bandwidth, num_bytes):
    assert Link(latency, bandwidth).time(num_bytes) == latency + num_bytes / bandwidth


def test_messages_are_free_by_default():
    assert Link().time(1e12) == Link().time() == 0.0


def test_an_empty_message_takes_the_latency():
    assert Link(latency=0.25, bandwidth=2.0).time(0) == 0.25


def test_size_makes_no_difference_with_infinite_bandwidth():
    assert Link(latency=0.25).time() == Link(latency=0.25).time(1e9) == 0.25


def test_finite_bandwidth_needs_a_size():
    with pytest.raises(ValueError, match=r"bandwidth=10.0\) has a finite bandwidth.*give num_bytes"):
        Link(bandwidth=10.0).time()


def test_links_are_values():
    assert Link(1, 2) == Link(latency=1.0, bandwidth=2.0)
    assert repr(Link(1, 2)) == "Link(latency=1.0, bandwidth=2.0)"
    with pytest.raises(FrozenInstanceError):
        Link().latency = 1.0


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"latency": -1.0}, ValueError, "latency .* at least 0, got -1.0"),
        ({"latency": math.inf}, ValueError, "latency .* finite .* got inf"),
        ({"latency": math.nan}, ValueError, "latency .* got nan"),
        ({"latency": "1"}, TypeError, "latency must be a finite number of at least 0, got '1'"),
        ({"bandwidth": 0.0}, ValueError, "bandwidth .* above 0, got 0.0"),
        ({"bandwidth": -math.inf}, ValueError, "bandwidth .* above 0, got -inf"),
        ({"bandwidth": math.nan}, ValueError, "bandwidth .* got nan"),
        ({"bandwidth": None}, TypeError, "bandwidth must be a number above 0, got None"),
    ],
)
def test_bad_links_are_refused(arguments, error, message):
    with pytest.raises(error, match=message):
        Link(**arguments)


@pytest.mark.parametrize("num_bytes", [-1.0, math.nan, math.inf])
def test_bad_sizes_are_refused(num_bytes):
    with pytest.raises(ValueError, match="num_bytes must be a finite number of at least 0"):
        Link(bandwidth=1.0).time(num_bytes)
