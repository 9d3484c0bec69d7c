"""The iteration bound against clipped ASGD on a slope that is as bad as smoothness allows."""

import math

import numpy as np
import pytest

from lightning_async.methods import ClippedASGD
from lightning_async.simulation import SimulatedCluster, TwoSpeedTimes
from lightning_async.theory import clipped_asgd_iterations

WORKERS = 8


def _iterations(eps: float, sigma: float, slowdown: float, limit: int) -> float:
    """Updates until |f'| <= eps for f = s sqrt(x^2 + s^2) - s^2, s = 1.2 eps, from f(x) = 1; f is 1-smooth.

    Away from its minimum the gradient is barely above the target, so that only many steps get there. The largest
    step that concurrency C allows without noise is 1/C, and with noise eps^2/sigma^2, eps/(sigma C) bound it too.
    """
    slope = 1.2 * eps
    x = math.sqrt(((1 + slope**2) / slope) ** 2 - slope**2)
    step_size = 1 / WORKERS if sigma == 0 else min(1 / WORKERS, (eps / sigma) ** 2, eps / (sigma * WORKERS))
    generator = np.random.default_rng(0)
    versions: dict[int, float] = {0: x}
    for step in ClippedASGD(clip=1.0).steps(SimulatedCluster(TwoSpeedTimes(WORKERS, slowdown=slowdown))):
        if step.index > limit:
            return math.inf
        if abs(slope * x / math.hypot(x, slope)) <= eps:
            return step.index
        y = versions[step.jobs[0].version]
        gradient = slope * y / math.hypot(y, slope) + sigma * generator.standard_normal()
        x -= step_size * max(-1.0, min(1.0, gradient))
        versions[step.index + 1] = x
    raise AssertionError("schedules do not end")


@pytest.mark.parametrize("eps", [0.1, 0.05])
@pytest.mark.parametrize("slowdown", [1.0, 4.0, 64.0])
def test_without_noise_the_bound_holds_within_a_factor_of_four_whatever_the_delays(eps, slowdown):
    bound = clipped_asgd_iterations(eps, 0.0, WORKERS)
    measured = _iterations(eps, 0.0, slowdown, limit=10 * int(bound))
    assert measured <= bound <= 4 * measured


@pytest.mark.parametrize("sigma", [0.05, 0.3])
def test_with_noise_the_bound_holds_within_a_factor_of_ten(sigma):
    bound = clipped_asgd_iterations(0.15, sigma, WORKERS)
    measured = _iterations(0.15, sigma, 4.0, limit=10 * int(bound))
    assert measured <= bound <= 10 * measured


def test_the_terms_are_those_of_the_paper():
    eps, sigma, zeta, delta, theta = 0.3, 0.7, 0.4, 0.01, 1.5
    logarithm = math.log(1 / delta)
    expected = (
        (sigma**2 + zeta**2) * logarithm ** (2 * theta) / eps**4
        + (sigma + zeta) * 5 * logarithm**theta / eps**3
        + 5 / eps**2
    )
    assert clipped_asgd_iterations(eps, sigma, 5, zeta, delta, theta) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"eps": 0.0}, "eps must be a finite number above 0, got 0.0"),
        ({"sigma": -1.0}, "sigma must be a finite number of at least 0, got -1.0"),
        ({"concurrency": 0}, "concurrency must be at least 1, got 0"),
        ({"heterogeneity": -1.0}, "heterogeneity must be a finite number of at least 0, got -1.0"),
        ({"failure": 1.0}, r"failure must be a number in \(0, 1\), or None for the bound in expectation, got 1.0"),
        ({"tail_index": -1.0}, "tail_index must be a finite number of at least 0, got -1.0"),
    ],
)
def test_impossible_arguments_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        clipped_asgd_iterations(**{"eps": 0.1, "sigma": 1.0, "concurrency": 2, **arguments})
