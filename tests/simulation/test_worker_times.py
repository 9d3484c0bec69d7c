"""What every model of worker times promises, and the models in which nothing is random."""

import ast
import copy
import math
import pickle
import random
import subprocess
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lightning_async.simulation import (
    BernoulliStragglers,
    ExponentialStraggling,
    FixedTimes,
    HalfNormalNoise,
    LinearTimes,
    OutagePower,
    PowerTimes,
    RandomTimes,
    SinusoidalPower,
    SqrtTimes,
    TraceTimes,
    TwoSpeedTimes,
    UniformTimes,
    WorkerTimes,
    worker_times,
)

WORKERS = 4
TRACE = "worker,seconds\n" + "".join(f"{w},{w + j + 0.5}\n" for w in range(WORKERS) for j in range(3 + w))
MODELS = {
    "fixed": partial(FixedTimes, [1.0, 2.0, 3.0, 4.5]),
    "uniform": partial(UniformTimes, WORKERS),
    "sqrt": partial(SqrtTimes, WORKERS),
    "linear": partial(LinearTimes, WORKERS, base=0.5),
    "two speeds": partial(TwoSpeedTimes, WORKERS, slowdown=4.0),
    "noise": partial(HalfNormalNoise, [1.0, 2.0, 3.0, 4.0], scale=0.3),
    "noise upon noise": lambda: HalfNormalNoise(HalfNormalNoise(LinearTimes(WORKERS)), std=[0.1, 0.2, 0.3, 0.4]),
    "exponential": partial(RandomTimes, WORKERS, "exponential"),
    "lognormal": partial(RandomTimes, WORKERS, "lognormal", mean=[1.0, 2.0, 3.0, 4.0]),
    "gamma": partial(RandomTimes, WORKERS, "gamma", shape=0.4),
    "pareto": partial(RandomTimes, WORKERS, "pareto"),
    "noisy pareto": lambda: HalfNormalNoise(RandomTimes(WORKERS, "pareto")),
    "powers": lambda: PowerTimes([1.0, 0.5, OutagePower([(1.0, 2.0)], period=3.0), SinusoidalPower(period=7.0)]),
    "trace in a cycle": lambda path: TraceTimes(path),
    "trace at random": lambda path: TraceTimes(path, order="random"),
    "stragglers": partial(BernoulliStragglers, [0.0, 0.2, 0.5, 1.0]),
    "stragglers by round": lambda: BernoulliStragglers(ExponentialStraggling(WORKERS, threshold=1.5)),
}


@pytest.fixture(scope="module")
def trace_path(tmp_path_factory):
    path = tmp_path_factory.mktemp("trace") / "trace.csv"
    path.write_text(TRACE)
    return path


@pytest.fixture
def make(trace_path):
    return lambda name: MODELS[name](trace_path) if name.startswith("trace") else MODELS[name]()


@pytest.fixture(params=MODELS)
def times(request, make) -> WorkerTimes:
    return make(request.param)


calls = st.tuples(st.integers(0, WORKERS - 1), st.integers(0, 10**9), st.floats(0.0, 1e6))


def test_order_of_calls_makes_no_difference(times):
    @given(asked=st.lists(calls, max_size=30), seed=st.integers(0, 2**64 - 1), shuffler=st.randoms())
    def check(asked, seed, shuffler):
        sampler = times.sampler(seed)
        expected = {call: sampler(*call) for call in asked}
        again = list(asked)
        shuffler.shuffle(again)
        other = times.sampler(seed)
        assert [other(*call) for call in again] == [expected[call] for call in again]

    check()


def test_older_jobs_keep_their_durations_when_workers_interleave(times):
    sampler = times.sampler(3)
    in_order = [[times.sampler(3)(worker, job, 0.0) for job in (0, 7, 8, 63, 64, 199)] for worker in range(WORKERS)]
    for job in range(200):
        for worker in random.Random(job).sample(range(WORKERS), WORKERS):
            sampler(worker, job, 0.0)
    assert [[sampler(worker, job, 0.0) for job in (0, 7, 8, 63, 64, 199)] for worker in range(WORKERS)] == in_order


def test_duration_is_that_of_the_sampler(times):
    assert [times.duration(w, 9, 2.0, seed=5) for w in range(WORKERS)] == [
        times.sampler(5)(w, 9, 2.0) for w in range(WORKERS)
    ]


@pytest.mark.parametrize("name", ["fixed", "uniform", "sqrt", "linear", "two speeds"])
def test_constant_durations_are_those_of_the_sampler(make, name):
    times = make(name)
    sampler = times.sampler(0)
    assert times.constant == tuple(sampler(worker, 11, 4.0) for worker in range(times.num_workers))


def test_start_matters_only_where_it_is_declared(times):
    durations = {
        tuple(times.sampler(0)(worker, 1, start) for worker in range(WORKERS))
        for start in np.linspace(0, 9, 50).tolist()
    }
    assert (len(durations) > 1) == times.depends_on_start


def test_durations_are_positive_python_floats(times):
    durations = [times.duration(worker, job) for worker in range(WORKERS) for job in range(20)]
    assert all(type(duration) is float and duration > 0.0 for duration in durations)


def test_pickled_and_copied_models_are_equal_and_draw_the_same(times):
    for other in (pickle.loads(pickle.dumps(times)), copy.deepcopy(times)):
        assert other == times
        assert hash(other) == hash(times)
        assert [other.duration(w, 70, 1.0) for w in range(WORKERS)] == [
            times.duration(w, 70, 1.0) for w in range(WORKERS)
        ]


def test_different_models_are_unequal(make):
    assert len({repr(make(name)) for name in MODELS}) == len({make(name) for name in MODELS}) == len(MODELS)


def rule(p, round):
    return [p, p]


def constant_rule(p):
    return lambda round: [p, p]


class Rule:
    def __init__(self, p):
        self.p = p

    def __call__(self, round):
        return [self.p, self.p]

    by_round = __call__


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (partial(FixedTimes, [1.0, 2.0]), partial(FixedTimes, [1.0, math.nextafter(2.0, 3.0)])),
        (partial(FixedTimes, np.arange(1.0, 9e4)), partial(FixedTimes, np.arange(1.0, 9e4)[np.r_[0, 2, 1, 3:89999]])),
        (partial(LinearTimes, 3), partial(LinearTimes, 3, base=2)),
        (partial(RandomTimes, 3, "gamma"), partial(RandomTimes, 3, "gamma", shape=1.0)),
        (partial(BernoulliStragglers, lambda round: [0.1]), partial(BernoulliStragglers, lambda round: [0.2])),
        (partial(BernoulliStragglers, constant_rule(0.1)), partial(BernoulliStragglers, constant_rule(0.2))),
        (partial(BernoulliStragglers, partial(rule, 0.1)), partial(BernoulliStragglers, partial(rule, 0.2))),
        (partial(BernoulliStragglers, Rule(0.1)), partial(BernoulliStragglers, Rule(0.2))),
        (partial(BernoulliStragglers, Rule(0.1).by_round), partial(BernoulliStragglers, Rule(0.2).by_round)),
    ],
)
def test_repr_tells_arguments_apart(one, other):
    assert one() == one()
    assert one() != other()


def test_repr_is_the_same_in_another_process():
    program = (
        "from functools import partial; from lightning_async.simulation import BernoulliStragglers, FixedTimes;"
        "made = lambda p: lambda round: [p, p];"
        "print([BernoulliStragglers(made(0.1)), BernoulliStragglers(partial(made(0.2))), FixedTimes(range(1, 99))])"
    )
    outputs = {
        subprocess.run([sys.executable, "-c", program], capture_output=True, check=True).stdout for _ in range(2)
    }
    assert len(outputs) == 1


def test_same_workers_have_the_same_times_in_a_larger_cluster():
    few, many = RandomTimes(2, "lognormal").sampler(4), RandomTimes(1000, "lognormal").sampler(4)
    assert [few(w, j, 0.0) for w in range(2) for j in range(99)] == [
        many(w, j, 0.0) for w in range(2) for j in range(99)
    ]


@pytest.mark.parametrize("name", ["noise", "gamma", "trace at random", "stragglers"])
def test_seed_changes_random_durations(make, name):
    times = make(name)
    assert len({tuple(times.sampler(seed)(2, job, 0.0) for job in range(64)) for seed in range(20)}) == 20


@pytest.mark.parametrize("path", sorted(Path(worker_times.__file__).parent.glob("*.py")), ids=lambda path: path.name)
def test_neither_torch_nor_lightning_is_imported(path):
    nodes = list(ast.walk(ast.parse(path.read_text())))
    imported = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    imported |= {node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)}
    assert not {name.split(".")[0] for name in imported} & {"torch", "torchmetrics", "lightning"}


def test_fixed_families_follow_their_formulas():
    assert UniformTimes(3, base=2.0).constant == (2.0, 2.0, 2.0)
    assert SqrtTimes(3, base=2.0).constant == (2.0, 2.0 * math.sqrt(2), 2.0 * math.sqrt(3))
    assert LinearTimes(3, base=2.0).constant == (2.0, 4.0, 6.0)


def test_two_speeds_puts_the_fast_half_first():
    assert TwoSpeedTimes(16, slowdown=4.0).constant == (1.0,) * 8 + (4.0,) * 8


@pytest.mark.parametrize(("fraction", "slow"), [(0.0, 0), (0.1, 1), (0.29, 1), (0.3, 2), (0.5, 3), (0.89, 4), (1.0, 5)])
def test_two_speeds_rounds_the_number_of_slow_workers_halves_up(fraction, slow):
    assert TwoSpeedTimes(5, slowdown=3.0, slow_fraction=fraction).constant.count(3.0) == slow


@pytest.mark.parametrize(
    ("make_model", "error", "message"),
    [
        (partial(FixedTimes, []), ValueError, "at least one worker"),
        (partial(FixedTimes, [1.0, 0.0]), ValueError, r"times\[1\] .* above 0, got 0.0"),
        (partial(FixedTimes, [1.0, -2.0]), ValueError, r"times\[1\] .* above 0, got -2.0"),
        (partial(FixedTimes, [math.nan]), ValueError, r"times\[0\] .* finite .* got nan"),
        (partial(FixedTimes, [math.inf]), ValueError, r"times\[0\] .* finite .* got inf"),
        (partial(FixedTimes, ["1", 2.0, None]), TypeError, r"times\[0\] must be a finite number above 0, got '1'"),
        (partial(FixedTimes, 1.0), TypeError, "times must be a sequence of numbers, got 1.0"),
        (partial(FixedTimes, [[1.0], [2.0]]), TypeError, r"times\[0\] must be a finite number above 0"),
        (partial(UniformTimes, 0), ValueError, "num_workers must be at least 1, got 0"),
        (partial(SqrtTimes, 2.0), TypeError, "num_workers must be an integer of at least 1, got 2.0"),
        (partial(LinearTimes, True), TypeError, "num_workers must be an integer of at least 1, got True"),
        (partial(LinearTimes, 3, base=-1.0), ValueError, "base .* above 0, got -1.0"),
        (partial(TwoSpeedTimes, 4, slowdown=0.5), ValueError, "slowdown .* at least 1, got 0.5"),
        (
            partial(TwoSpeedTimes, 4, slowdown=4.0, slow_fraction=1.5),
            ValueError,
            r"slow_fraction must be a number in \[0, 1\]",
        ),
        (partial(TwoSpeedTimes, 4, slowdown=4.0, slow_fraction=0.1), ValueError, "leaves no slow worker"),
        (partial(TwoSpeedTimes, 4, slowdown=4.0, slow_fraction=0.9), ValueError, "leaves no fast worker"),
    ],
)
def test_bad_arguments_are_refused(make_model, error, message):
    with pytest.raises(error, match=message):
        make_model()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"worker": 4, "job": 0}, r"worker must be in 0\.\.3, got 4"),
        ({"worker": -1, "job": 0}, r"worker must be in 0\.\.3, got -1"),
        ({"worker": 0, "job": -1}, "job numbers start at 0, got -1"),
        ({"worker": 0, "job": 0, "start": -1.0}, "start .* at least 0, got -1.0"),
    ],
)
def test_duration_refuses_jobs_that_cannot_be(arguments, message):
    with pytest.raises(ValueError, match=message):
        UniformTimes(4).duration(**arguments)


@pytest.mark.parametrize("seed", [-1, 2**64])
def test_seeds_out_of_range_are_refused(seed):
    with pytest.raises(ValueError, match=f"seed must be .* got {seed}"):
        RandomTimes(1, "gamma").sampler(seed)
