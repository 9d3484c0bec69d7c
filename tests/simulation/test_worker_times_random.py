"""Distributions of random worker times, against scipy's."""

import math
import tracemalloc

import numpy as np
import pytest
from scipy import stats

from lightning_async.simulation import (
    ConstantPower,
    HalfNormalNoise,
    LinearTimes,
    PowerTimes,
    RandomTimes,
)
from lightning_async.simulation.random_blocks import FIRST_SPAN, JOBS_PER_BLOCK, block_sampler, philox

JOBS = 20_000
UNIT_MEAN = {
    ("exponential", None): stats.expon(),
    ("lognormal", 0.5): stats.lognorm(s=0.5, scale=math.exp(-0.125)),
    ("gamma", 0.7): stats.gamma(a=0.7, scale=1 / 0.7),
    ("gamma", 30.0): stats.gamma(a=30.0, scale=1 / 30.0),
    ("pareto", 12.0): stats.pareto(b=12.0, scale=11 / 12),
}


def durations(times, worker, jobs=JOBS, seed=0):
    sampler = times.sampler(seed)
    return np.array([sampler(worker, job, 0.0) for job in range(jobs)])


def in_standard_errors(sample, mean, variance, fourth_central_moment):
    """How far the sample's mean and variance are from the true ones."""
    of_mean = (sample.mean() - mean) / math.sqrt(variance / len(sample))
    of_variance = (sample.var() - variance) / math.sqrt((fourth_central_moment - variance**2) / len(sample))
    return abs(of_mean), abs(of_variance)


@pytest.mark.parametrize(("distribution", "shape"), UNIT_MEAN)
def test_mean_and_variance_are_right_within_four_standard_errors(distribution, shape):
    reference = UNIT_MEAN[distribution, shape]
    variance, kurtosis = (float(value) for value in reference.stats("vk"))
    for worker, mean in enumerate([1.0, 3.0]):
        sample = durations(RandomTimes(2, distribution, mean=[1.0, 3.0], shape=shape), worker) / mean
        assert max(in_standard_errors(sample, 1.0, variance, (kurtosis + 3) * variance**2)) < 4


@pytest.mark.parametrize(("distribution", "shape"), UNIT_MEAN)
def test_distribution_is_the_named_one(distribution, shape):
    sample = durations(RandomTimes(1, distribution, shape=shape), 0, seed=1)
    assert stats.kstest(sample, UNIT_MEAN[distribution, shape].cdf).pvalue > 1e-4


@pytest.mark.parametrize("std", [None, 0.7], ids=["relative", "absolute"])
def test_half_normal_noise_has_the_moments_of_a_half_normal(std):
    times = HalfNormalNoise([1.0, 5.0], scale=0.05, std=None if std is None else [0.1, std])
    spread = 0.25 if std is None else std
    noise = (durations(times, worker=1) - 5.0) / spread
    variance, kurtosis = (float(value) for value in stats.halfnorm.stats(moments="vk"))
    assert noise.min() >= 0.0
    assert max(in_standard_errors(noise, math.sqrt(2 / math.pi), variance, (kurtosis + 3) * variance**2)) < 4


def test_half_normal_noise_without_noise_is_the_model_itself():
    quiet = HalfNormalNoise(RandomTimes(3, "gamma"), scale=0.0)
    assert [quiet.duration(w, 5, seed=2) for w in range(3)] == [
        RandomTimes(3, "gamma").duration(w, 5, seed=2) for w in range(3)
    ]


def test_half_normal_noise_keeps_never():
    times = HalfNormalNoise(PowerTimes([ConstantPower(0.0)]), scale=0.0)
    assert times.duration(worker=0, job=0) == math.inf


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (RandomTimes(2, "lognormal"), None),
        (RandomTimes(2, "lognormal"), HalfNormalNoise(RandomTimes(2, "lognormal"), std=1.0)),
        (HalfNormalNoise([1.0, 1.0], std=1.0), HalfNormalNoise(HalfNormalNoise([1.0, 1.0], std=1.0), std=1.0)),
    ],
    ids=["two workers", "times and their noise", "noise and noise upon it"],
)
def test_draws_that_should_be_independent_are_uncorrelated(one, other):
    """The last two compare a model with what is added to it."""
    first = durations(one, 0)
    second = durations(one, 1) if other is None else durations(other, 0) - first
    ranks = stats.spearmanr(first, second).statistic
    assert abs(ranks) < 4 / math.sqrt(JOBS)


def test_seeds_and_jobs_are_uncorrelated():
    times = RandomTimes(1, "exponential")
    sample, other_seed = durations(times, 0), durations(times, 0, seed=1)
    for first, second in [(sample, other_seed), (sample[:-1], sample[1:]), (sample[:-64], sample[64:])]:
        assert abs(stats.spearmanr(first, second).statistic) < 4 / math.sqrt(len(first))


def test_models_of_one_seed_share_their_draws():
    slow, fast = RandomTimes(1, "exponential", mean=4.0), RandomTimes(1, "exponential", mean=1.0)
    assert durations(slow, 0, 100) == pytest.approx(4.0 * durations(fast, 0, 100), rel=1e-15)


@pytest.mark.parametrize("distribution", ["exponential", "lognormal", "gamma", "pareto"])
def test_the_short_first_span_is_the_beginning_of_the_first_block(distribution):
    times = RandomTimes(1, distribution)
    from_short, from_full = times.sampler(0), times.sampler(0)
    from_full(0, JOBS_PER_BLOCK - 1, 0.0)
    assert [from_short(0, job, 0.0) for job in range(FIRST_SPAN)] == [
        from_full(0, job, 0.0) for job in range(FIRST_SPAN)
    ]


def test_a_block_is_what_philox_gives_under_its_key_and_counter():
    sampler = block_sampler(5, 17, lambda generator, worker, size: generator.random(size), layer=2)
    expected = philox(17, 4, int.from_bytes(b"duration", "big"))
    state = expected.state
    state["state"]["counter"][1:3] = 3, 2
    expected.state = state
    block = np.random.Generator(expected).random(JOBS_PER_BLOCK)
    assert [sampler(4, 3 * JOBS_PER_BLOCK + offset, 0.0) for offset in range(JOBS_PER_BLOCK)] == block.tolist()


def test_memory_does_not_grow_with_the_number_of_jobs():
    sampler = RandomTimes(4, "gamma").sampler(0)
    for job in range(200):
        sampler(job % 4, job, 0.0)
    tracemalloc.start()
    for job in range(200, 30_000):
        sampler(job % 4, job, 0.0)
    grown, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert grown < 20_000


def test_durations_that_underflow_stay_positive():
    assert durations(RandomTimes(1, "gamma", shape=1e-3), 0, 500).min() > 0.0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"distribution": "weibull"}, "one of 'exponential', 'lognormal', 'gamma', 'pareto', got 'weibull'"),
        ({"num_workers": 0}, "num_workers must be at least 1, got 0"),
        ({"mean": [1.0]}, "mean has 1 values for 2 workers"),
        ({"mean": [1.0, 0.0]}, r"mean\[1\] .* above 0, got 0.0"),
        ({"mean": math.inf}, "mean .* finite .* got inf"),
        ({"shape": 0.0}, "shape of the gamma distribution .* above 0, got 0.0"),
        ({"distribution": "pareto", "shape": 1.0}, "shape of the pareto distribution .* above 1, got 1.0"),
        ({"distribution": "exponential", "shape": 2.0}, "exponential distribution has no shape, got 2.0"),
    ],
)
def test_random_times_refuses_bad_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        RandomTimes(**{"num_workers": 2, "distribution": "gamma", **arguments})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"scale": -0.1}, "scale .* at least 0, got -0.1"),
        ({"scale": math.nan}, "scale .* finite .* got nan"),
        ({"std": [0.1]}, "std has 1 values for 2 workers"),
        ({"std": [0.1, -0.1]}, r"std\[1\] .* at least 0, got -0.1"),
        ({"times": [1.0, -1.0]}, r"times\[1\] .* above 0, got -1.0"),
    ],
)
def test_half_normal_noise_refuses_bad_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        HalfNormalNoise(**{"times": LinearTimes(2), **arguments})
