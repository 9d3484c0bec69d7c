"""Workers that answer in time or not at all."""

import math

import numpy as np
import pytest
from scipy import stats

from lightning_async.simulation import BernoulliStragglers, ExponentialStraggling

ROUNDS = 10_000


def alternating(round):
    return [0.1, 0.8] if round % 2 else [0.5, 0.0]


def never_finish(times, worker, rounds):
    sampler = times.sampler(0)
    return np.array([sampler(worker, round, 0.0) == math.inf for round in rounds])


@pytest.mark.parametrize("p", [0.03, 0.5, 0.9])
def test_share_of_stragglers_is_p_within_four_standard_errors(p):
    share = never_finish(BernoulliStragglers([0.2, p]), 1, range(ROUNDS)).mean()
    assert abs(share - p) < 4 * math.sqrt(p * (1 - p) / ROUNDS)


@pytest.mark.parametrize("parity", [0, 1])
@pytest.mark.parametrize("worker", [0, 1])
def test_share_of_stragglers_follows_a_function_of_the_round(parity, worker):
    p = alternating(parity)[worker]
    rounds = range(parity, ROUNDS, 2)
    share = never_finish(BernoulliStragglers(alternating), worker, rounds).mean()
    assert abs(share - p) <= 4 * math.sqrt(p * (1 - p) / len(rounds))


def test_a_constant_function_equals_the_array():
    by_array, by_function = (
        BernoulliStragglers([0.3, 0.6]).sampler(9),
        BernoulliStragglers(lambda round: [0.3, 0.6]).sampler(9),
    )
    assert all(by_array(w, r, 0.0) == by_function(w, r, 0.0) for w in range(2) for r in range(300))


def test_workers_straggle_independently():
    times = BernoulliStragglers(0.4, num_workers=2)
    first, second = (never_finish(times, worker, range(ROUNDS)) for worker in range(2))
    assert abs(np.corrcoef(first, second)[0, 1]) < 4 / math.sqrt(ROUNDS)


def test_p_zero_always_and_p_one_never_finishes():
    sampler = BernoulliStragglers([0.0, 1.0], on_time=2.5).sampler(0)
    assert {sampler(0, round, 0.0) for round in range(2000)} == {2.5}
    assert {sampler(1, round, 0.0) for round in range(2000)} == {math.inf}


def test_probabilities_are_those_given():
    assert BernoulliStragglers([0.1, 0.2]).probabilities(7).tolist() == [0.1, 0.2]
    assert BernoulliStragglers(0.1, num_workers=3).probabilities(7).tolist() == [0.1] * 3
    assert BernoulliStragglers(alternating).probabilities(7).tolist() == [0.1, 0.8]
    assert BernoulliStragglers(lambda round: 0.5, num_workers=2).probabilities(7).tolist() == [0.5, 0.5]


def test_exponential_straggling_draws_uniform_rates_in_every_round():
    rule = ExponentialStraggling(num_workers=50, threshold=1.5, low=0.01, high=2.0)
    rates = -np.log([rule(round) for round in range(100)]) / 0.5
    assert stats.kstest(rates.reshape(-1), stats.uniform(0.01, 1.99).cdf).pvalue > 1e-4
    assert (rule(3) == rule(3)).all()
    assert (rule(3) != rule(4)).all()


def at_round_five(round):
    return [0.1, 1.1] if round == 5 else [0.1, 0.1]


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"p": [0.1, 1.5]}, ValueError, r"p must hold probabilities, in \[0, 1\]; got 1.5 for worker 1"),
        ({"p": [-0.1]}, ValueError, "got -0.1 for worker 0"),
        ({"p": [math.nan]}, ValueError, "got nan for worker 0"),
        ({"p": []}, ValueError, "p is empty"),
        ({"p": 0.1}, ValueError, "say how many with num_workers"),
        ({"p": 2.0, "num_workers": 3}, ValueError, "got 2.0"),
        ({"p": [0.1, 0.2], "num_workers": 3}, ValueError, r"p has shape \(2,\) for 3 workers"),
        ({"p": [[0.1], [0.2]]}, ValueError, r"p has shape \(2, 1\)"),
        ({"p": 0.1, "num_workers": 0}, ValueError, "num_workers must be at least 1, got 0"),
        ({"p": "often"}, TypeError, "p must be .* got 'often'"),
        ({"p": lambda round: [0.1, -1.0]}, ValueError, r"p\(0\) .* got -1.0 for worker 1"),
        ({"p": [0.1], "on_time": 0.0}, ValueError, "on_time .* above 0"),
    ],
)
def test_bad_stragglers_are_refused(arguments, error, message):
    with pytest.raises(error, match=message):
        BernoulliStragglers(**arguments)


def test_a_bad_later_round_is_refused_when_it_is_asked_for():
    sampler = BernoulliStragglers(at_round_five).sampler(0)
    sampler(0, 4, 0.0)
    with pytest.raises(ValueError, match=r"p\(5\) .* got 1.1 for worker 1"):
        sampler(0, 5, 0.0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"threshold": 0.9}, "threshold .* at least 1, got 0.9"),
        ({"low": 0.0}, "low .* above 0"),
        ({"low": 3.0}, "high .* at least 3, got 2.0"),
        ({"num_workers": 0}, "num_workers must be at least 1"),
        ({"seed": -1}, "seed must be"),
    ],
)
def test_bad_exponential_straggling_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        ExponentialStraggling(**{"num_workers": 2, "threshold": 1.1, **arguments})
