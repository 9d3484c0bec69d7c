from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from lightning_async.coding import (
    CODE_NAMES,
    FixedDecoder,
    GradientCode,
    bgc,
    code_error,
    code_from_effective,
    correlated_gram,
    cyclic,
    effective_code,
    erasure_head,
    expected_error,
    fractional_repetition,
    make_code,
    make_quantizer,
    optimal_code,
    osgc,
    sgc,
    uncoded,
)
from lightning_async.coding.error import arrival_sets

Draws = Callable[..., torch.Tensor]

P = np.array([0.1, 0.3, 0.5, 0.2])
BITS = np.array([4, 3, 2, 5])
UNBIASED = ("interval", "alias", "spread", "osgc", "uncoded", "sgc", "ehd")


def partition_gradients(kind: str) -> torch.Tensor:
    generator = torch.Generator().manual_seed(3)
    base = torch.randn(4, 8, generator=generator) + 0.5
    if kind == "sparse":
        return base * (torch.rand(4, 8, generator=generator) < 0.15)
    return {
        "ordinary": base,
        "constant": torch.full((4, 8), 0.7) * torch.arange(1, 5)[:, None],
        "zero": torch.zeros(4, 8),
        "huge": base * 1e30,
        "tiny": base * 1e-30,
        "one element": base[:, :1].clone(),
        "empty": base[:, :0].clone(),
    }[kind]


@pytest.mark.parametrize("kind", ["ordinary", "sparse", "constant", "zero", "huge", "tiny", "one element", "empty"])
@pytest.mark.parametrize("quantizer_name", ["dither", "rounding", "qsgd", "norm", "none"])
@pytest.mark.parametrize("name", CODE_NAMES)
def test_mean_and_squared_error_are_those_of_the_formula(
    name: str, quantizer_name: Any, kind: str, draws: Draws
) -> None:
    gradients = partition_gradients(kind)
    length = gradients.shape[1]
    quantizer = make_quantizer(quantizer_name, bucket=max(length, 1))
    code = make_code(name, BITS, P, partitions=4, kappa=9.0, quantizer="dither", seed=1)
    rows = [torch.tensor(row, dtype=torch.float32) @ gradients for row in code.assignment]
    q = [quantizer.relative_variance(row, int(bits)) for row, bits in zip(rows, BITS, strict=True)]
    scale = float(gradients.abs().max()) if gradients.numel() and gradients.abs().max() > 0 else 1.0
    # Every worker its own seed: the formula holds for independent quantisers.
    count = 2000 if quantizer_name == "norm" else 4000
    messages = torch.stack([draws(quantizer, row, int(BITS[i]), count, seed=i) for i, row in enumerate(rows)])
    messages = messages.double().numpy() / scale
    exact = gradients.double().numpy() / scale

    rng = np.random.default_rng(4)
    arrived = rng.random((messages.shape[1], 4)) >= P
    decoded = np.einsum("nk,knd->nd", code.decoder.weights(arrived), messages)
    assert np.all(np.isfinite(decoded))

    mean_weights = sum(w @ code.decoder.weights(s) for s, w in arrival_sets(P, np.ones(4, dtype=bool)))
    expected_mean = mean_weights @ code.assignment @ exact
    expected = code_error(code, P, q, exact @ exact.T)
    variance = expected - float(((expected_mean - exact.sum(axis=0)) ** 2).sum())
    standard_error = (max(variance, 0.0) / len(decoded)) ** 0.5
    assert np.linalg.norm(decoded.mean(axis=0) - expected_mean) <= 4 * standard_error + 1e-6

    squares = ((decoded - exact.sum(axis=0)) ** 2).sum(axis=1)
    assert abs(squares.mean() - expected) <= 4 * squares.std() / len(squares) ** 0.5 + 1e-6 * (1 + expected)


@pytest.mark.parametrize("name", UNBIASED)
@pytest.mark.parametrize("partitions", [4, 7, 12])
def test_expected_weights_add_up_to_every_partition_once(name: str, partitions: int) -> None:
    code = make_code(name, BITS, P, partitions=partitions, kappa=9.0)
    mean = sum(w @ code.decoder.weights(s) for s, w in arrival_sets(P, np.ones(4, dtype=bool)))
    np.testing.assert_allclose(mean @ code.assignment, 1.0, rtol=1e-10)


@pytest.mark.parametrize("tolerance", [0, 1, 2])
@pytest.mark.parametrize("partitions", [6, 13, 3])
def test_exact_codes_recover_the_sum_from_any_workers_but_s(tolerance: int, partitions: int) -> None:
    for code in (
        fractional_repetition(6, partitions=partitions, tolerance=tolerance),
        cyclic(6, partitions=partitions, tolerance=tolerance),
    ):
        for lost in itertools.combinations(range(6), tolerance):
            arrived = np.ones(6, dtype=bool)
            arrived[list(lost)] = False
            np.testing.assert_allclose(code.decoder.weights(arrived) @ code.assignment, 1.0, atol=1e-8)


def test_cyclic_rows_hold_s_plus_one_neighbouring_partitions() -> None:
    code = cyclic(7, partitions=7, tolerance=2)
    for i, row in enumerate(code.assignment):
        assert set(np.flatnonzero(row)) == {i, (i + 1) % 7, (i + 2) % 7}


@pytest.mark.parametrize(
    ("code", "load"),
    [
        (uncoded(P, partitions=4), 1.0),
        (sgc(P, partitions=4, replication=3), 3.0),
        (erasure_head(P, partitions=4), 2.0),
        (fractional_repetition(4, partitions=4), 2.0),
        (cyclic(4, partitions=4, tolerance=2), 3.0),
    ],
)
def test_loads_of_baselines(code: GradientCode, load: float) -> None:
    assert code.load == load


def test_bernoulli_code_is_unbiased_over_its_draw() -> None:
    columns = []
    for seed in range(2000):
        code = bgc(P, partitions=4, replication=2, seed=seed)
        assert isinstance(code.decoder, FixedDecoder)
        columns.append(effective_code(code.assignment, code.decoder.fixed, P).sum(axis=0))
    values = np.array(columns)
    assert np.all(np.abs(values.mean(axis=0) - 1) <= 4 * values.std(axis=0) / len(values) ** 0.5)


def test_erasure_head_groups_are_neighbours_in_the_order_of_p() -> None:
    code = erasure_head([0.9, 0.1, 0.8, 0.2], partitions=4)
    assert code.assignment.tolist() == [[0, 0, 1, 1], [1, 1, 0, 0], [0, 0, 1, 1], [1, 1, 0, 0]]


def test_published_erasure_head_uses_one_survivor_a_group() -> None:
    decoder = erasure_head([0.1, 0.2, 0.3, 0.4], partitions=4, rescale=False).decoder
    assert decoder.weights(np.array([True, True, False, True])).tolist() == [1.0, 0.0, 0.0, 1.0]


def test_ignoring_stragglers_is_the_mean_of_the_survivors() -> None:
    decoder = uncoded(P, partitions=4, importance=False).decoder
    assert decoder.weights(np.array([True, False, True, False])).tolist() == [2.0, 0.0, 2.0, 0.0]
    assert decoder.weights(np.zeros(4, dtype=bool)).tolist() == [0.0] * 4


def test_equal_workers_get_the_uncoded_code() -> None:
    code = optimal_code([3] * 4, [0.4] * 4, partitions=4, kappa=9.0)
    np.testing.assert_allclose(code.assignment, np.eye(4))


def test_osgc_loads_are_the_odds_of_arriving() -> None:
    code = osgc([0.5, 0.8], partitions=5)
    assert isinstance(code.decoder, FixedDecoder)
    np.testing.assert_allclose(
        effective_code(code.assignment, code.decoder.fixed, np.array([0.5, 0.8])).sum(axis=1), [4, 1]
    )


def test_code_and_weights_are_the_reference(instance: dict[str, Any]) -> None:
    code = optimal_code(
        instance["z"], instance["p"], partitions=instance["K"], kappa=instance["kappa"], quantizer="rounding"
    )
    np.testing.assert_allclose(code.assignment, instance["A_row"], rtol=1e-8, atol=1e-11)
    assert isinstance(code.decoder, FixedDecoder)
    np.testing.assert_allclose(code.decoder.fixed, instance["w_row"], rtol=1e-9)


@pytest.mark.parametrize("rho", [0.0, 0.5, 1.0])
def test_errors_are_the_reference_values(instance: dict[str, Any], rho: float) -> None:
    key = f"rho={0 if rho == 0 else rho}"
    gram = correlated_gram(instance["K"], rho)
    effective, p, q = np.array(instance["B_interval"]), instance["p"], instance["q_used"]
    assert expected_error(effective, p, q, gram) == pytest.approx(instance["mse"][key], rel=1e-9)
    dense = np.outer(instance["s"], np.ones(instance["K"])) / instance["K"]
    assert expected_error(dense, p, q, gram) == pytest.approx(instance["mse_dense"][key], rel=1e-9)


def test_the_bound_is_reached_by_aligned_gradients(instance: dict[str, Any]) -> None:
    code = optimal_code(
        instance["z"], instance["p"], partitions=instance["K"], kappa=instance["kappa"], quantizer="rounding"
    )
    q = np.where(np.array(instance["z"]) > 0, instance["q_used"], np.inf)
    found = code_error(code, instance["p"], q, correlated_gram(instance["K"], 1.0))
    assert found == pytest.approx(instance["bound"], rel=1e-9)


def test_no_unbiased_code_beats_the_bound_on_its_worst_gradients() -> None:
    rng = np.random.default_rng(5)
    q = np.array([0.02, 0.1, 0.3, 0.01])
    u = (1 - P) / (P + q)
    bound = 16 / u.sum()
    for _ in range(500):
        effective = rng.random((4, 4)) ** 3
        effective /= effective.sum(axis=0)
        assert expected_error(effective, P, q, np.ones((4, 4))) >= bound * (1 - 1e-12)


def test_a_fixed_and_an_enumerated_decoder_give_the_same_error() -> None:
    code = sgc(P, partitions=5, replication=2)

    class Enumerated:
        def weights(self, arrived: np.ndarray) -> np.ndarray:
            return code.decoder.weights(arrived)

    gram, q = correlated_gram(5, 0.3), np.array([0.1, 0.0, 0.2, 0.4])
    other = GradientCode(code.assignment, Enumerated())
    assert code_error(other, P, q, gram) == pytest.approx(code_error(code, P, q, gram), rel=1e-12)


def test_a_worker_without_bits_counts_as_one_that_never_arrives() -> None:
    code = cyclic(3, partitions=3)
    silent = code_error(code, [0.1, 0.2, 0.3], [0.0, np.inf, 0.0], np.eye(3))
    assert silent == pytest.approx(code_error(code, [0.1, 1.0, 0.3], 0.0, np.eye(3)), rel=1e-12)


def test_partitions_of_arrived_workers() -> None:
    code = code_from_effective([[1.0, 0.5], [0.0, 0.5]], [0.1, 0.1])
    assert code.partitions_of(np.array([False, True])).tolist() == [1]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: uncoded([0.1, 1.0], partitions=2), "Worker 1 never arrives .* only one with its partitions"),
        (lambda: sgc([0.1, 1.0], partitions=2), r"workers that ever arrive \(1\); got 2"),
        (lambda: erasure_head([1.0, 1.0], partitions=2), "p = 1; use larger groups"),
        (lambda: fractional_repetition(5, partitions=5), "divide the workers; got 2 and 5. Use the cyclic"),
        (lambda: cyclic(3, partitions=3, tolerance=3), "below the number of workers"),
        (lambda: bgc(P, partitions=4, replication=5), "replication must be at most"),
        (
            lambda: make_code("best", BITS, P, partitions=4, kappa=9.0),
            "code must be one of 'interval', .* got 'best'",
        ),
        (lambda: make_quantizer("sign"), "quantizer must be one of 'dither', .* got 'sign'"),  # type: ignore[arg-type]
        (
            lambda: make_code("alias", BITS, P, partitions=3, kappa=9.0),
            "at least as many partitions as used workers; got 3 for 4",
        ),
        (lambda: make_code("interval", BITS, P, partitions=4, kappa=9.0, cap=0.9), "load cap of 0.9"),
        (lambda: make_code("interval", [0] * 4, P, partitions=4, kappa=9.0), "No worker is useful"),
        (lambda: osgc([1.0, 1.0], partitions=2), "No worker is useful"),
        (
            lambda: optimal_code(BITS, P, partitions=4, kappa=9.0, fill="x"),
            "fill must be one of 'interval', .* got 'x'",
        ),  # type: ignore[arg-type]
        (
            lambda: expected_error(np.eye(2), [0.1, 1.0], [0, 0], np.eye(2)),
            "Worker 1 has a load in B but never delivers",
        ),
        (lambda: expected_error(np.eye(2), [0.1, 0.1], [0, np.inf], np.eye(2)), "never delivers"),
        (lambda: expected_error(np.eye(2), [0.1, 0.1], [0, 0], np.eye(3)), r"gram must be \(2, 2\)"),
        (lambda: code_from_effective(np.eye(2), [0.1, 1.0]), "Worker 1 never arrives; give it no load"),
    ],
)
def test_codes_that_cannot_be_made_are_errors_with_a_remedy(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()
