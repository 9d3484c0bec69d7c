"""The checks of arguments: what they take, what they refuse, and that everything public refuses alike."""

from __future__ import annotations

import ast
import math
import sys
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lightning_async.arguments
from lightning_async import Link, ParameterServerStrategy, SimulatedCluster
from lightning_async.arguments import array, boolean, choice, count, probability, random_seed, real, reals
from lightning_async.callbacks import GradientNoiseMonitor, LogicalTimeLimit, TimeToTarget, ValidateEvery
from lightning_async.coding import StochasticRounding, allocate_bits, sgc
from lightning_async.methods import (
    ASGD,
    LOSCAR,
    ClippedASGD,
    DelayAdaptiveASGD,
    DiLoCo,
    FedBuff,
    GradientCoding,
    LocalSGD,
    MaleniaSGD,
    RennalaSGD,
)
from lightning_async.simulation import (
    BernoulliStragglers,
    FixedTimes,
    LinearTimes,
    PowerTimes,
    RandomTimes,
    SqrtTimes,
    TwoSpeedTimes,
    UniformTimes,
)
from lightning_async.theory import clipped_asgd_iterations, harmonic_times, loscar_time, ringmaster_threshold


def test_only_numpy_and_the_standard_library_are_imported() -> None:
    nodes = list(ast.walk(ast.parse(Path(lightning_async.arguments.__file__).read_text())))
    imported = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    imported |= {node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)}
    assert {name.split(".")[0] for name in imported} <= {*sys.stdlib_module_names, "numpy"}


@settings(max_examples=50)
@given(st.integers(1, 2**70))
def test_a_count_is_the_integer_itself(value: int) -> None:
    assert count("n", value) == value


@pytest.mark.parametrize("value", [np.int8(3), np.uint64(3), np.array(3)])
def test_integers_of_numpy_become_plain_ones(value: object) -> None:
    assert type(count("n", value)) is int
    assert type(random_seed(value)) is int


@pytest.mark.parametrize("value", [np.float32(0.5), np.float64(0.5), Fraction(1, 2), np.array(0.5)])
def test_numbers_of_other_kinds_become_plain_floats(value: object) -> None:
    assert type(real("x", value)) is float
    assert probability("x", value) == 0.5


@pytest.mark.parametrize("value", [True, np.True_, "3", b"3", None, 1j, np.complex64(1), [3], np.array([3, 4])])
@pytest.mark.parametrize("check", [count, real, probability, lambda name, value: random_seed(value)])
def test_what_is_not_a_number_is_of_the_wrong_kind(check: Callable[..., object], value: object) -> None:
    with pytest.raises(TypeError, match=r"must be .*, got"):
        check("x", value)


@pytest.mark.parametrize("value", [1.0, np.float64(1.0), math.nan])
def test_a_float_is_no_integer(value: object) -> None:
    with pytest.raises(TypeError, match="x must be an integer of at least 1, got"):
        count("x", value)


@settings(max_examples=50)
@given(st.floats(allow_nan=True), st.floats(-10, 10), st.floats(0, 10))
def test_a_number_is_taken_exactly_within_its_bounds(value: float, low: float, width: float) -> None:
    for bounds, inside in (
        ({"at_least": low}, low <= value < math.inf),
        ({"above": low, "finite": False}, low < value),
        ({"above": low, "below": low + width}, low < value < low + width),
        ({"at_least": low, "at_most": low + width}, low <= value <= low + width),
    ):
        if inside:
            assert real("x", value, **bounds) == value
        else:
            with pytest.raises(ValueError, match="x must be a"):
                real("x", value, **bounds)


@pytest.mark.parametrize(
    ("check", "message"),
    [
        (lambda: count("n", 0), "n must be at least 1, got 0"),
        (lambda: count("n", 17, at_most=16), "n must be from 1 to 16, got 17"),
        (lambda: count("n", None, at_most=16), "n must be an integer from 1 to 16, got None"),
        (lambda: count("n", "3", note=", or None"), "n must be an integer of at least 1, or None, got '3'"),
        (lambda: real("x", np.float32(-1), above=0), "x must be a finite number above 0, got -1.0"),
        (lambda: real("x", -1, at_least=0, finite=False), "x must be a number of at least 0, got -1"),
        (lambda: real("x", 10**5000), "x must be a finite number, got an integer of 16610 bits"),
        (lambda: real("x", 2, below=1), "x must be a finite number below 1, got 2"),
        (lambda: real("x", 2, at_most=1), "x must be a finite number of at most 1, got 2"),
        (lambda: probability("p", 2), r"p must be a number in [0, 1], got 2"),
        (lambda: random_seed(-1), "seed must be an integer from 0 to 2**64 - 1, got -1"),
        (lambda: boolean("b", 1), "b must be True or False, got 1"),
        (lambda: choice("c", "z", ("x", "y")), "c must be one of 'x', 'y', got 'z'"),
        (lambda: choice("c", None, ("x", "y"), note=", or 3"), "c must be one of 'x', 'y', or 3, got None"),
        (lambda: reals("t", [1.0, np.nan]), "t[1] must be a finite number, got nan"),
        (lambda: reals("t", np.array(1.0)), "t must be a sequence of numbers, got array(1.)"),
        (lambda: array("p", [0.5, "x"]), "p must be a number or an array of numbers, got [0.5, 'x']"),
    ],
)
def test_a_message_says_the_name_what_is_allowed_and_what_was_given(check: Callable[[], object], message: str) -> None:
    with pytest.raises((TypeError, ValueError)) as raised:
        check()
    assert str(raised.value) == message


@settings(max_examples=50)
@given(st.lists(st.floats(0, 1e300) | st.integers(0, 2**60), max_size=40))
def test_a_sequence_of_numbers_is_what_its_numbers_are(values: list[float]) -> None:
    assert reals("x", values, at_least=0.0) == tuple(real("x", value) for value in values)
    assert reals("x", np.array(values, dtype=np.float64)) == tuple(map(float, values))


@pytest.mark.parametrize("values", [0.5, [1, 2], [[0.5], [1.0]], np.float32(0.5), [Fraction(1, 2)], np.zeros((2, 0))])
def test_an_array_keeps_its_shape(values: object) -> None:
    assert array("p", values).shape == np.shape(values)
    assert array("p", values).dtype == np.float64


@pytest.mark.parametrize("values", ["x", ["1"], [True], None, [None, 1.0], [1j], [[1.0], [1.0, 2.0]], {"a": 1.0}])
def test_an_array_holds_numbers_only(values: object) -> None:
    with pytest.raises(TypeError, match="p must be a number or an array of numbers, got"):
        array("p", values)


_CLUSTER = SimulatedCluster(UniformTimes(2))

NUMBERS: dict[str, Callable[[object], object]] = {
    "UniformTimes": lambda x: UniformTimes(2, base=x),
    "FixedTimes": lambda x: FixedTimes([x]),
    "TwoSpeedTimes": lambda x: TwoSpeedTimes(2, slowdown=x),
    "RandomTimes": lambda x: RandomTimes(2, "gamma", mean=x),
    "PowerTimes": lambda x: PowerTimes([x]),
    "BernoulliStragglers": lambda x: BernoulliStragglers(x, num_workers=2),
    "Link": lambda x: Link(bandwidth=x),
    "ClippedASGD": ClippedASGD,
    "MaleniaSGD": MaleniaSGD,
    "FedBuff": lambda x: FedBuff(1, 1, x),
    "LocalSGD": LocalSGD,
    "DiLoCo": lambda x: DiLoCo(1.0, outer_lr=x),
    "LOSCAR": lambda x: LOSCAR(x, compute_window=1.0),
    "GradientCoding": lambda x: GradientCoding("interval", 12, "dither", "own", 3, deadline=x),
    "allocate_bits": lambda x: allocate_bits([x], 4, kappa=9.0),
    "harmonic_times": lambda x: harmonic_times([x]),
    "ringmaster_threshold": lambda x: ringmaster_threshold(1.0, x),
    "loscar_time": lambda x: loscar_time([1.0], 1, x, 0.0),
    "LogicalTimeLimit": LogicalTimeLimit,
    "ValidateEvery": ValidateEvery,
    "TimeToTarget": lambda x: TimeToTarget("loss", x, "min"),
    "GradientNoiseMonitor": lambda x: GradientNoiseMonitor(confidence=x),
}
INTEGERS: dict[str, Callable[[object], object]] = {
    "UniformTimes": UniformTimes,
    "SqrtTimes": SqrtTimes,
    "LinearTimes": LinearTimes,
    "SimulatedCluster": lambda n: SimulatedCluster(UniformTimes(2), seed=n),
    "RennalaSGD": RennalaSGD,
    "DelayAdaptiveASGD": lambda n: DelayAdaptiveASGD(concurrency=n),
    "FedBuff": lambda n: FedBuff(n, 1, 0.1),
    "GradientCoding": lambda n: GradientCoding("interval", 12, "dither", "own", partitions=n),
    "sgc": lambda n: sgc([0.1, 0.1], partitions=n),
    "StochasticRounding": StochasticRounding,
    "clipped_asgd_iterations": lambda n: clipped_asgd_iterations(0.5, 1.0, concurrency=n),
    "TimeToTarget": lambda n: TimeToTarget("loss", 0.5, "min", window=n),
    "GradientNoiseMonitor": lambda n: GradientNoiseMonitor(num_samples=n),
    "ParameterServerStrategy": lambda n: ParameterServerStrategy(ASGD(), _CLUSTER, seed=n),
}


@pytest.mark.parametrize("value", ["3", True])
@pytest.mark.parametrize("name", NUMBERS)
def test_whoever_takes_a_number_refuses_the_wrong_kind_as_a_type(name: str, value: object) -> None:
    with pytest.raises(TypeError, match=r"must be .*got"):
        NUMBERS[name](value)


@pytest.mark.parametrize("name", NUMBERS)
def test_whoever_takes_a_number_refuses_nan_as_a_value(name: str) -> None:
    with pytest.raises(ValueError, match="nan"):
        NUMBERS[name](math.nan)


@pytest.mark.parametrize("value", ["30", True, 30.0])
@pytest.mark.parametrize("name", INTEGERS)
def test_whoever_takes_an_integer_refuses_the_wrong_kind_as_a_type(name: str, value: object) -> None:
    with pytest.raises(TypeError, match=r"must be an integer .*, got"):
        INTEGERS[name](value)


@pytest.mark.parametrize("name", INTEGERS)
def test_whoever_takes_an_integer_refuses_a_negative_one_as_a_value(name: str) -> None:
    with pytest.raises(ValueError, match=r"must be .*, got -1"):
        INTEGERS[name](-1)


@pytest.mark.parametrize("name", INTEGERS)
def test_whoever_takes_an_integer_takes_that_of_numpy(name: str) -> None:
    INTEGERS[name](np.int64(30))
