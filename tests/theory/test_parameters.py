import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lightning_async.theory import rennala_batch, ringmaster_lmo_parameters, ringmaster_threshold

CONSTANTS = st.fixed_dictionaries(
    {
        "gap": st.floats(0.1, 10.0),
        "smoothness": st.floats(0.1, 10.0),
        "sigma": st.floats(0.0, 10.0),
        "growth": st.floats(0.0, 10.0),
        "rho": st.floats(0.1, 10.0),
        "updates": st.integers(1, 10_000),
    }
)


@settings(max_examples=60)
@given(constants=CONSTANTS, unit=st.floats(0.01, 100.0))
def test_parameters_do_not_depend_on_the_unit_of_the_loss(constants, unit):
    rescaled = {
        name: value * unit if name in ("gap", "smoothness", "sigma") else value for name, value in constants.items()
    }
    one, other = ringmaster_lmo_parameters(**constants), ringmaster_lmo_parameters(**rescaled)
    assert one.alpha == pytest.approx(other.alpha)
    assert one.step_size == pytest.approx(other.step_size)


@settings(max_examples=60)
@given(constants=CONSTANTS, unit=st.floats(0.01, 100.0))
def test_the_step_size_has_the_unit_of_a_length(constants, unit):
    powers = {"smoothness": -2, "sigma": -1, "growth": -1}
    rescaled = {name: value * unit ** powers.get(name, 0) for name, value in constants.items()}
    rescaled["updates"] = constants["updates"]
    one, other = ringmaster_lmo_parameters(**constants), ringmaster_lmo_parameters(**rescaled)
    assert one.alpha == pytest.approx(other.alpha)
    assert one.step_size * unit == pytest.approx(other.step_size)


@settings(max_examples=60)
@given(constants=CONSTANTS)
def test_the_threshold_admits_exactly_the_delays_below_one_over_alpha(constants):
    found = ringmaster_lmo_parameters(**constants)
    assert 0 < found.alpha <= 1
    assert found.threshold - 1 < 1 / found.alpha
    assert found.threshold >= 1 / found.alpha * (1 - 1e-9)


def test_every_term_of_the_step_size_can_be_the_smallest():
    gap, smoothness, sigma, updates, rho = 2.0, 3.0, 5.0, 400, 0.5
    terms = {
        0.0: gap**0.75 / (smoothness**0.25 * (rho * sigma) ** 0.5 * updates**0.75),
        1e3: math.sqrt(gap * smoothness) / (1e3 * rho * sigma * math.sqrt(updates)),
    }
    for growth, expected in terms.items():
        found = ringmaster_lmo_parameters(gap, smoothness, sigma, updates, growth, rho)
        assert found.step_size == pytest.approx(expected)
    noiseless = {0.0: math.sqrt(gap / (smoothness * updates)), 1e3: 1e-3}
    for growth, expected in noiseless.items():
        assert ringmaster_lmo_parameters(gap, smoothness, 0.0, updates, growth).step_size == pytest.approx(expected)


def test_constants_whose_product_underflows_give_the_limit():
    assert ringmaster_lmo_parameters(1.0, 1.0, 1e-200, 4, growth=1e-200).step_size == pytest.approx(0.5)


def test_without_noise_the_newest_gradient_is_the_momentum():
    found = ringmaster_lmo_parameters(1.0, 1.0, 0.0, 10)
    assert (found.alpha, found.threshold) == (1.0, 1)


@pytest.mark.parametrize("rule", [ringmaster_threshold, rennala_batch])
@settings(max_examples=40)
@given(sigma=st.floats(0.0, 30.0), eps=st.floats(0.01, 10.0))
def test_the_mean_of_that_many_gradients_has_the_target_as_variance(rule, sigma, eps):
    found = rule(sigma, eps)
    assert sigma**2 / found <= eps * (1 + 1e-12)
    assert found == 1 or sigma**2 / (found - 1) > eps * (1 - 1e-12)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"gap": 0.0}, "gap must be a finite number above 0, got 0.0"),
        ({"smoothness": -1.0}, "smoothness must be a finite number above 0, got -1.0"),
        ({"sigma": -1.0}, "sigma must be a finite number of at least 0, got -1.0"),
        ({"sigma": math.nan}, "sigma must be a finite number of at least 0, got nan"),
        ({"growth": math.inf}, "growth must be a finite number of at least 0, got inf"),
        ({"rho": 0.0}, "rho must be a finite number above 0, got 0.0"),
        ({"updates": 0}, "updates must be at least 1, got 0"),
    ],
)
def test_impossible_constants_are_refused(changed, message):
    with pytest.raises(ValueError, match=message):
        ringmaster_lmo_parameters(**{"gap": 1.0, "smoothness": 1.0, "sigma": 1.0, "updates": 10, **changed})


def test_a_target_of_zero_is_refused():
    with pytest.raises(ValueError, match=r"eps must be a finite number above 0, got 0.0"):
        ringmaster_threshold(1.0, 0.0)
