"""What the models of workers refuse, whoever wrote it: each with a message that says what is allowed."""

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from lightning_async.simulation import (
    ExponentialStraggling,
    FixedTimes,
    OutagePower,
    SimulatedCluster,
    TraceTimes,
    UniformTimes,
)


def with_seed(seed: object) -> SimulatedCluster:
    return SimulatedCluster(FixedTimes([1.0]), seed=seed)


@pytest.mark.parametrize("make", [with_seed, lambda seed: ExponentialStraggling(2, 1.1, seed=seed)])
def test_a_seed_is_an_integer_of_64_bits(make: Callable[[object], SimulatedCluster | ExponentialStraggling]) -> None:
    assert type(make(np.uint64(2**64 - 1)).seed) is int
    assert repr(make(np.int64(3))) == repr(make(3))
    for wrong in (True, np.True_, 1.0, "1", None):
        with pytest.raises(TypeError, match=r"seed must be an integer from 0 to 2\*\*64 - 1, got"):
            make(wrong)
    for wrong in (-1, 2**64, 10**5000):
        with pytest.raises(ValueError, match=r"seed must be an integer from 0 to 2\*\*64 - 1, got"):
            make(wrong)


@pytest.mark.parametrize(
    ("times", "message"),
    [
        ({1.0: 2.0}, "times must be a sequence of numbers, got {1.0: 2.0}"),
        ({1.0, 2.0}, "times must be a sequence of numbers"),
        ("12", "times must be a sequence of numbers, got '12'"),
        (["1", "2"], r"times\[0\] must be a finite number above 0, got '1'"),
        ([1.0, True], r"times\[1\] must be a finite number above 0, got True"),
        (np.array([True]), r"times\[0\] must be a finite number above 0"),
    ],
)
def test_times_are_numbers_in_order(times: object, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        FixedTimes(times)


def test_numbers_that_are_too_large_are_refused_as_infinity_is() -> None:
    with pytest.raises(ValueError, match=r"times\[0\] must be a finite number above 0, got an integer of 1329 bits"):
        FixedTimes([10**400])
    with pytest.raises(ValueError, match="base must be a finite number above 0, got an integer of 1329 bits"):
        UniformTimes(2, base=10**400)
    with pytest.raises(ValueError, match="num_workers must be at most"):
        UniformTimes(10**5000)


@pytest.mark.parametrize(
    ("outages", "message"),
    [
        (3.0, r"outages must be a sequence of pairs \(begin, end\), got 3.0"),
        ([1.0], r"outages\[0\] must be a pair \(begin, end\), got 1.0"),
        ([(1.0, 2.0), (3.0,)], r"outages\[1\] must be a pair"),
        ([(1.0, 2.0, 3.0)], r"outages\[0\] must be a pair"),
        (["12"], r"outages\[0\] must be a pair"),
        ([(1.0, "2")], r"end of outages\[0\] must be a finite number, got '2'"),
    ],
)
def test_outages_are_pairs_of_numbers(outages: object, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        OutagePower(outages)


def test_an_outage_may_have_no_end() -> None:
    assert OutagePower([(1.0, math.inf)]).outages == ((1.0, math.inf),)


def test_a_trace_is_a_text_file(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="csv must be a file, got the folder"):
        TraceTimes(tmp_path)
    (tmp_path / "trace.csv").write_bytes(b"\x80\xff\x00")
    with pytest.raises(ValueError, match="is not a CSV file in UTF-8"):
        TraceTimes(tmp_path / "trace.csv")
    with pytest.raises(TypeError, match="csv must be the path of a file, got 3"):
        TraceTimes(3)
