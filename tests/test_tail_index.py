"""The tail estimator on samples whose tail parameter is known."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lightning_async.tail_index import _largest_exponentials, estimate_tail

THETAS = [0.5, 1.0, 2.0]


def sub_weibull(theta: float, size: int | tuple[int, ...], seed: int, scale: float = 3.0) -> np.ndarray:
    """Samples with P(X > x) = exp(-(x / scale)^(1 / theta))."""
    return scale * np.random.default_rng(seed).exponential(size=size) ** theta


@pytest.mark.parametrize("theta", THETAS)
def test_known_theta_is_found_within_four_standard_errors(theta: float) -> None:
    estimates = np.array(
        [estimate_tail(row, 2500, num_bootstrap=100).theta for row in sub_weibull(theta, (50, 10000), 0)]
    )
    assert abs(estimates.mean() - theta) < 4 * estimates.std() / np.sqrt(len(estimates))


@pytest.mark.parametrize("theta", THETAS)
@pytest.mark.parametrize(("num_samples", "k"), [(100, 10), (1000, None)])
def test_interval_covers_theta_at_its_stated_level(theta: float, num_samples: int, k: int | None) -> None:
    repetitions, confidence = 300, 0.9
    fits = [
        estimate_tail(row, k, confidence=confidence, num_bootstrap=1000, seed=seed)
        for seed, row in enumerate(sub_weibull(theta, (repetitions, num_samples), seed=1))
    ]
    covered = np.mean([fit.interval[0] <= theta <= fit.interval[1] for fit in fits])
    assert abs(covered - confidence) < 4 * np.sqrt(confidence * (1 - confidence) / repetitions)


@pytest.mark.parametrize("theta", THETAS)
def test_errors_exactly_on_the_law_give_its_parameters_and_are_reproduced(theta: float) -> None:
    errors = 3.0 * np.log(200 / np.arange(1, 201)) ** theta
    fit = estimate_tail(np.random.default_rng(0).permutation(errors), num_order_statistics=50)
    assert fit.theta == pytest.approx(theta)
    assert fit.scale == pytest.approx(3.0)
    np.testing.assert_allclose(fit.fitted_errors(), errors, rtol=1e-9)


def test_only_the_stated_number_of_order_statistics_matters() -> None:
    errors = np.sort(sub_weibull(1.0, 500, seed=2))[::-1]
    changed = errors.copy()
    changed[40:] *= 0.5
    assert estimate_tail(errors, 40) == estimate_tail(changed, 40)


@settings(max_examples=30)
@given(power=st.floats(0.1, 5.0), factor=st.floats(1e-6, 1e6))
def test_powers_multiply_theta_and_factors_leave_it(power: float, factor: float) -> None:
    errors = sub_weibull(1.0, 300, seed=3)
    plain, changed = (estimate_tail(e, num_bootstrap=100) for e in (errors, factor * errors**power))
    assert changed.theta == pytest.approx(power * plain.theta)
    np.testing.assert_allclose(changed.interval, np.multiply(power, plain.interval))
    assert changed.scale == pytest.approx(factor * plain.scale**power)


def test_survival_inverts_quantile() -> None:
    fit = estimate_tail(sub_weibull(2.0, 500, seed=4))
    exceedance = np.array([0.5, 0.1, 1e-4])
    np.testing.assert_allclose(fit.survival(fit.quantile(exceedance)), exceedance)


def test_default_is_a_tenth_of_the_errors_and_is_stated() -> None:
    fit = estimate_tail(sub_weibull(1.0, 730, seed=5))
    assert (fit.num_order_statistics, fit.num_samples) == (73, 730)


def test_same_seed_gives_the_same_interval() -> None:
    errors = sub_weibull(1.0, 200, seed=6)
    assert estimate_tail(errors, seed=1) == estimate_tail(errors, seed=1)


def test_largest_exponentials_have_the_means_of_the_order_statistics() -> None:
    m, k, draws = 30, 8, 20000
    sample = _largest_exponentials(m, k, draws, np.random.default_rng(0))
    expected = [sum(1 / rank for rank in range(i, m + 1)) for i in range(1, k + 1)]
    assert np.all(np.abs(sample.mean(axis=0) - expected) < 4 * sample.std(axis=0) / np.sqrt(draws))


@pytest.mark.parametrize(
    ("errors", "k", "message"),
    [
        (np.ones((4, 4)), None, r"shape \(4, 4\): pass a vector"),
        (np.array([1.0, -2.0] * 20), None, r"20 of 40 errors are negative .*first: -2.0"),
        (np.array([1.0, np.nan] * 20), None, r"20 of 40 errors are negative or not finite"),
        (np.ones(8), None, r"10 order statistics of 8 errors: must be in \[5, 7\]"),
        (np.ones(50), 50, r"50 order statistics of 50 errors"),
        (np.ones(50), 4, r"4 order statistics of 50 errors"),
        (np.r_[np.ones(20), np.zeros(30)], 10, r"10 largest of 50 errors all equal 1.0: there is no tail"),
        (np.r_[np.ones(7), np.zeros(43)], 10, r"only 7 of 50 errors are positive"),
    ],
)
def test_unusable_errors_are_refused_with_the_numbers(errors: np.ndarray, k: int | None, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        estimate_tail(errors, k)


@pytest.mark.parametrize("arguments", [{"confidence": 1.0}, {"num_bootstrap": 10}])
def test_arguments_out_of_range_are_refused(arguments: dict[str, float]) -> None:
    name, value = next(iter(arguments.items()))
    with pytest.raises(ValueError, match=f"{name}={value}"):
        estimate_tail(np.arange(100.0), **arguments)
