from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from lightning_async.coding import (
    CorrelationEstimator,
    CrestFactorAverage,
    FixedDecoder,
    GradientCode,
    SetAwareDecoder,
    SubtractiveDither,
    allocate_bits,
    code_error,
    code_from_effective,
    combine,
    correlated_gram,
    effective_code,
    erasure_head,
    expected_error,
    gram_of_messages,
    make_decoder,
    optimal_code,
    osgc,
    relative_variance,
    utility,
)
from lightning_async.coding.error import arrival_sets


def fixed(code: GradientCode) -> FixedDecoder:
    assert isinstance(code.decoder, FixedDecoder)
    return code.decoder


def reference_code(instance: dict[str, Any]) -> GradientCode:
    return code_from_effective(instance["B_interval"], instance["p"])


def test_minimum_mse_shrinks_by_the_reference_factor(instance: dict[str, Any]) -> None:
    decoder = fixed(reference_code(instance))
    np.testing.assert_allclose(
        decoder.minimum_mse(instance["U"]).fixed, instance["alpha_fixed_mmse"] * decoder.fixed, rtol=1e-10
    )


def test_minimum_mse_has_the_least_guaranteed_error_of_all_factors(instance: dict[str, Any]) -> None:
    code, K = reference_code(instance), instance["K"]
    p, q, gram = np.array(instance["p"]), instance["q_used"], correlated_gram(K, 1.0)

    def error(decoder: FixedDecoder) -> float:
        return expected_error(effective_code(code.assignment, decoder.fixed, p), p, q, gram)

    best = error(fixed(code).minimum_mse(instance["U"]))
    assert best == pytest.approx(K**2 / (1 + instance["U"]), rel=1e-9)
    for factor in np.linspace(0.2, 1.2, 21):
        assert best <= error(FixedDecoder(fixed(code).fixed * factor)) + 1e-12


@pytest.mark.parametrize("name", ["own", "min_mse", "regularized", "set_aware", "lmmse"])
def test_every_decoder_is_made_by_name(name: str) -> None:
    code = six_workers()
    weights = make_decoder(name, code, P, Q, rho=0.3).weights(np.array([True, True, False, True, True, False]))
    assert np.all(np.isfinite(weights))
    assert weights[2] == weights[5] == 0


def test_minimum_mse_by_name_is_the_one_for_the_total_utility() -> None:
    code = six_workers()
    decoder = make_decoder("min_mse", code, P, Q)
    assert isinstance(decoder, FixedDecoder)
    expected = fixed(code).minimum_mse(utility(BITS, P, kappa=9.0))
    np.testing.assert_allclose(decoder.fixed, expected.fixed, rtol=1e-12)


@pytest.mark.parametrize("name", ["min_mse", "regularized"])
def test_shrinking_a_code_without_fixed_weights_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="decoded by GroupDecoder; use 'own'"):
        make_decoder(name, erasure_head([0.1, 0.2], partitions=2), [0.1, 0.2], 0.0)


def test_an_unknown_decoder_is_refused() -> None:
    with pytest.raises(ValueError, match=r"decoder must be one of 'own', 'min_mse', .* got 'best'"):
        make_decoder("best", six_workers(), P, Q)


def test_infinite_utility_needs_no_shrinking() -> None:
    assert FixedDecoder(np.ones(2)).minimum_mse(float("inf")).fixed.tolist() == [1.0, 1.0]


def test_the_authors_second_decoder_has_their_weights_on_the_osgc_code() -> None:
    p, strength, partitions = np.array([0.1, 0.3, 0.5]), 0.7, 6
    code = osgc(p, partitions=partitions)
    effective = effective_code(code.assignment, fixed(code).fixed, p)
    s = effective.sum(axis=1)
    odds = ((1 - p) / p).sum()
    theirs = strength * partitions / (p * s * (1 + strength * odds))
    mine = fixed(code).regularized(p, strength).fixed
    # Messages with rows that sum to 1 are the published ones over s_i.
    np.testing.assert_allclose(mine, theirs * s, rtol=1e-12)


def test_the_authors_second_decoder_leaves_workers_that_always_arrive() -> None:
    decoder = FixedDecoder(np.array([1.0, 2.0]))
    assert decoder.regularized(np.array([0.0, 0.5]), 1.0).fixed.tolist() == [1.0, 2.0]
    with pytest.raises(ValueError, match="strength must be a finite number above 0"):
        decoder.regularized(np.array([0.1, 0.5]), 0.0)


@pytest.mark.parametrize("rho", [0.0, 0.5, 0.9])
def test_set_aware_weights_are_the_reference_values(set_aware_instance: dict[str, Any], rho: float) -> None:
    instance, expected = set_aware_instance, set_aware_instance["set_aware"][f"rho={0 if rho == 0 else rho}"]
    code = reference_code(instance)
    arrived = np.isin(np.arange(instance["k"]), expected["example_S"])
    for unbiased, key in ((True, "example_unbiased_weights_on_vhat"), (False, "example_lmmse_weights_on_vhat")):
        decoder = SetAwareDecoder(code, instance["p"], instance["q_used"], rho=rho, unbiased=unbiased)
        np.testing.assert_allclose(decoder.weights(arrived) / decoder.scale, expected[key], rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("rho", [0.0, 0.5, 0.9])
def test_set_aware_errors_are_the_reference_values(set_aware_instance: dict[str, Any], rho: float) -> None:
    instance, expected = set_aware_instance, set_aware_instance["set_aware"][f"rho={0 if rho == 0 else rho}"]
    code, gram = reference_code(instance), correlated_gram(instance["K"], rho)
    for unbiased, key in ((True, "mse_unbiased_setaware"), (False, "mse_lmmse")):
        decoder = SetAwareDecoder(code, instance["p"], instance["q_used"], rho=rho, unbiased=unbiased)
        assert decoder.model_error() == pytest.approx(expected[key], rel=1e-6)
        found = code_error(GradientCode(code.assignment, decoder), instance["p"], instance["q_used"], gram)
        assert found == pytest.approx(expected[key], rel=1e-6)


P = np.array([0.0, 0.15, 0.3, 0.5, 0.7, 1.0])
BITS = np.array([3, 4, 3, 2, 2, 0])
Q = relative_variance(BITS, 9.0, "dither")


def six_workers() -> GradientCode:
    return optimal_code(BITS, P, partitions=6, kappa=9.0)


@pytest.mark.parametrize("rho", [-0.15, 0.0, 0.4, 1.0])
def test_set_aware_unbiased_is_unbiased_whatever_rho(rho: float) -> None:
    code = six_workers()
    decoder = SetAwareDecoder(code, P, Q, rho=rho)
    mean = sum(w @ decoder.weights(s) for s, w in arrival_sets(P, code.used))
    np.testing.assert_allclose(mean @ code.assignment, 1.0, rtol=1e-8)


@pytest.mark.parametrize("rho", [0.0, 0.5, 0.9])
def test_knowing_the_set_never_hurts_under_the_true_model(rho: float) -> None:
    code, gram = six_workers(), correlated_gram(6, rho)
    unbiased, lmmse = (
        code_error(GradientCode(code.assignment, SetAwareDecoder(code, P, Q, rho=rho, unbiased=u)), P, Q, gram)
        for u in (True, False)
    )
    assert lmmse <= unbiased <= code_error(code, P, Q, gram) + 1e-9


def test_changing_the_correlation_equals_building_anew() -> None:
    code = six_workers()
    decoder = SetAwareDecoder(code, P, Q, rho=0.0)
    decoder.set_correlation(0.6)
    arrived = np.array([True, False, True, True, False, False])
    np.testing.assert_allclose(decoder.weights(arrived), SetAwareDecoder(code, P, Q, rho=0.6).weights(arrived))


def test_weights_of_many_sets_equal_those_of_single_sets() -> None:
    code = six_workers()
    for decoder in (SetAwareDecoder(code, P, Q, rho=0.5), erasure_head(P, partitions=6).decoder):
        sets = np.random.default_rng(0).random((20, 6)) < 0.6
        np.testing.assert_allclose(decoder.weights(sets), [decoder.weights(row) for row in sets], atol=1e-12)


def test_nothing_arrived_gives_zero_weights() -> None:
    decoder = SetAwareDecoder(six_workers(), P, Q, rho=0.5)
    assert decoder.weights(np.zeros(6, dtype=bool)).tolist() == [0.0] * 6


def test_with_many_workers_unbiasedness_holds_up_to_the_sampling_of_sets() -> None:
    p = np.append(np.linspace(0.05, 0.8, 24), 0.995)
    bits = allocate_bits(p, 120, kappa=9.0)
    bits[-1] = 2
    q = relative_variance(bits, 9.0, "dither")
    code = optimal_code(bits, p, partitions=25, kappa=9.0)
    decoder = SetAwareDecoder(code, p, q, rho=0.5)
    arrived = np.random.default_rng(1).random((40_000, 25)) >= p
    weights = decoder.weights(arrived) / np.where(decoder.scale > 0, decoder.scale, 1.0)
    standard_error = weights.std(axis=0) / 200 + weights.std(axis=0) / 8192**0.5
    used = code.used
    assert np.all(np.abs(weights.mean(axis=0) - 1)[used] <= 4 * standard_error[used])


def test_set_aware_weights_with_dependent_exact_messages_stay_finite() -> None:
    code = code_from_effective([[0.5, 0.5], [0.5, 0.5]], [0.2, 0.2])
    decoder = SetAwareDecoder(code, [0.2, 0.2], [0.0, 0.0], rho=0.0)
    weights = decoder.weights(np.array([True, True]))
    assert np.all(np.isfinite(weights))
    np.testing.assert_allclose(weights[0], weights[1])


def test_set_aware_decoding_of_a_code_without_fixed_weights_is_refused() -> None:
    with pytest.raises(ValueError, match="decoded by GroupDecoder"):
        SetAwareDecoder(erasure_head([0.1, 0.2], partitions=2), [0.1, 0.2], 0.0)


@pytest.mark.parametrize("rho", [-0.3, 1.1])
def test_an_impossible_correlation_is_refused(rho: float) -> None:
    with pytest.raises(ValueError, match=r"rho must be a number in \[-0.2, 1\] for 6 partitions"):
        SetAwareDecoder(six_workers(), P, Q, rho=rho)


@pytest.mark.parametrize("rho", [0.0, 0.3, 0.8])
def test_the_correlation_is_learnt_from_quantised_messages(rho: float) -> None:
    generator = torch.Generator().manual_seed(5)
    rng = np.random.default_rng(5)
    code, quantizer = six_workers(), SubtractiveDither(512)
    effective = effective_code(code.assignment, fixed(code).fixed, P)
    scale = (1 - P) * fixed(code).fixed
    estimator = CorrelationEstimator(effective, Q)
    for step in range(60):
        common = torch.randn(1, 1024, generator=generator)
        gradients = rho**0.5 * common + (1 - rho) ** 0.5 * torch.randn(6, 1024, generator=generator)
        messages = {}
        for worker in np.flatnonzero((rng.random(6) >= P) & code.used):
            row = torch.tensor(code.assignment[worker], dtype=torch.float32) @ gradients
            sent = quantizer.encode(row, int(BITS[worker]), seed=1000 * step + int(worker))
            messages[int(worker)] = quantizer.decode(sent) * float(scale[worker])
        estimator.update(*gram_of_messages(messages))
    assert estimator.rho == pytest.approx(min(rho, 0.95), abs=0.05)


def test_without_data_the_correlation_is_the_initial_one() -> None:
    assert CorrelationEstimator(np.eye(3), 0.0, initial=0.4).rho == 0.4


def test_estimates_survive_a_checkpoint() -> None:
    first = CorrelationEstimator(np.eye(2), 0.0)
    first.update(np.array([0, 1]), np.array([[1.0, 0.3], [0.3, 1.0]]))
    second = CorrelationEstimator(np.eye(2), 0.0)
    second.load_state_dict(first.state_dict())
    assert second.rho == first.rho
    average = CrestFactorAverage(2)
    average.update(1, 20.0)
    average.update(1, 10.0)
    copy = CrestFactorAverage(2)
    copy.load_state_dict(average.state_dict())
    assert copy.kappa.tolist() == average.kappa.tolist() == [9.4, 19.5]
    assert copy.common == 19.5


def test_combining_is_the_weighted_sum_of_what_arrived() -> None:
    messages = {0: torch.tensor([1.0, 2.0]), 2: torch.tensor([3.0, -1.0])}
    assert combine(messages, np.array([2.0, 9.0, 0.5])).tolist() == [3.5, 3.5]
    assert messages[0].tolist() == [1.0, 2.0]


def test_combining_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="No message arrived"):
        combine({}, np.zeros(2))


def test_the_shrunk_error_matches_its_closed_form() -> None:
    bits = allocate_bits(P, 12, kappa=9.0)
    total = utility(bits, P, kappa=9.0)
    code = optimal_code(bits, P, partitions=4, kappa=9.0)
    q = np.where(bits > 0, relative_variance(bits, 9.0, "dither"), np.inf)
    shrunk = GradientCode(code.assignment, fixed(code).minimum_mse(total))
    assert code_error(shrunk, P, q, np.ones((4, 4))) == pytest.approx(16 / (1 + total), rel=1e-9)


@pytest.mark.parametrize("rho", [0.0, 0.95, 1.0])
def test_set_aware_is_unbiased_also_when_messages_are_nearly_exact(rho: float) -> None:
    p = np.linspace(0.05, 0.8, 8)
    q = relative_variance(np.full(8, 16), 9.0, "dither")
    code = optimal_code([16] * 8, p, partitions=8, kappa=9.0)
    decoder = SetAwareDecoder(code, p, q, rho=rho)
    mean = sum(w @ decoder.weights(s) for s, w in arrival_sets(p, code.used))
    np.testing.assert_allclose(mean @ code.assignment, 1.0, rtol=1e-6)
