from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest

from lightning_async.coding import allocate_bits, utility
from lightning_async.coding.variance import QuantizerName

METHODS = ("exact", "dp", "top_k", "greedy", "equal")


def random_instance(rng: np.random.Generator, *, per_worker: bool) -> dict[str, Any]:
    """Small instance with ties, p = 0, p = 1, one worker and budget 0 among them."""
    workers = int(rng.integers(1, 7))
    special = np.array([0.0, 1.0, 0.1, 0.2, 0.2, 0.5, 0.9, 0.04, 0.0401, 0.0402])
    p = rng.choice(special, workers) if rng.random() < 0.4 else rng.random(workers) * rng.choice([0.1, 1.0])
    kappa = np.exp(rng.uniform(-3, 4, workers if per_worker else None))
    if per_worker and rng.random() < 0.3:
        kappa = rng.choice([1.0, 9.0, 30.0], workers)
    quantizer: QuantizerName = ("rounding", "dither", "rounding", "dither", "qsgd", "norm", "none")[rng.integers(7)]
    return {
        "p": p,
        "budget": int(rng.integers(0, 22)),
        "kappa": kappa,
        "zmax": int(rng.integers(1, 10)),
        "quantizer": quantizer,
    }


def value(z: np.ndarray, instance: dict[str, Any]) -> float:
    return utility(z, instance["p"], kappa=instance["kappa"], quantizer=instance["quantizer"])


def test_exact_reaches_the_reference_optimum(instance: dict[str, Any]) -> None:
    for method in ("exact", "dp"):
        z = allocate_bits(
            instance["p"],
            instance["Z_res"],
            kappa=instance["kappa"],
            zmax=instance["zmax"],
            quantizer="rounding",
            method=method,  # type: ignore[arg-type]
        )
        assert utility(z, instance["p"], kappa=instance["kappa"], quantizer="rounding") == pytest.approx(
            instance["U"], rel=1e-10
        )
        if method == "exact" or instance["number_of_optimal_z"] == 1:
            assert z.tolist() == instance["z"]


def test_greedy_reaches_the_reference_value(instance: dict[str, Any]) -> None:
    p, kappa = instance["p"], instance["kappa"]
    z = allocate_bits(p, instance["Z_res"], kappa=kappa, zmax=instance["zmax"], quantizer="rounding", method="greedy")
    expected = instance["U_marginal_greedy"]
    assert utility(z, p, kappa=kappa, quantizer="rounding") == pytest.approx(expected, rel=1e-10)


def test_utility_of_the_reference_allocation(instance: dict[str, Any]) -> None:
    found = utility(instance["z"], instance["p"], kappa=instance["kappa"], quantizer="rounding")
    assert found == pytest.approx(instance["U"], rel=1e-12)


@pytest.mark.parametrize(("per_worker", "count"), [(False, 7000), (True, 4000)])
def test_exact_equals_dp_on_random_instances(per_worker: bool, count: int) -> None:
    rng = np.random.default_rng(1)
    for _ in range(count):
        instance = random_instance(rng, per_worker=per_worker)
        exact, dp = (allocate_bits(**instance, method=m) for m in ("exact", "dp"))
        assert value(exact, instance) == pytest.approx(value(dp, instance), rel=1e-10, abs=1e-12), instance


@pytest.mark.parametrize("spread", [False, True])
@pytest.mark.parametrize("per_coordinate", [0.7, 3.0, 9.0])
def test_exact_equals_dp_on_many_workers(spread: bool, per_coordinate: float) -> None:
    rng = np.random.default_rng(2)
    workers = 150
    p = np.round(rng.random(workers), 2)
    kappa = rng.uniform(3, 40, workers) if spread else 9.36
    budget = int(per_coordinate * workers)
    exact, dp = (allocate_bits(p, budget, kappa=kappa, method=m) for m in ("exact", "dp"))
    assert utility(exact, p, kappa=kappa) == pytest.approx(utility(dp, p, kappa=kappa), rel=1e-10)


def test_exact_equals_dp_when_many_workers_of_different_kinds_tie() -> None:
    p = np.repeat([0.1, 0.3], 40)
    kappa = np.tile([5.0, 20.0], 40)
    exact, dp = (allocate_bits(p, 131, kappa=kappa, method=m) for m in ("exact", "dp"))
    assert utility(exact, p, kappa=kappa) == pytest.approx(utility(dp, p, kappa=kappa), rel=1e-10)


def test_dp_is_the_best_of_all_allocations_by_enumeration() -> None:
    rng = np.random.default_rng(3)
    grid = np.stack(np.meshgrid(*[np.arange(5)] * 3, indexing="ij"), axis=-1).reshape(-1, 3)
    for _ in range(50):
        p, kappa, budget = rng.random(3), float(np.exp(rng.uniform(-2, 4))), int(rng.integers(0, 13))
        allowed = grid[grid.sum(axis=1) <= budget]
        best = max(utility(z, p, kappa=kappa) for z in allowed)
        z = allocate_bits(p, budget, kappa=kappa, zmax=4, method="dp")
        assert utility(z, p, kappa=kappa) == pytest.approx(best, rel=1e-12)


@pytest.mark.parametrize("method", METHODS)
def test_every_method_respects_budget_and_cap(method: str) -> None:
    rng = np.random.default_rng(4)
    for index in range(300):
        instance = random_instance(rng, per_worker=index % 2 == 0)
        z = allocate_bits(**instance, method=method)  # type: ignore[arg-type]
        assert z.sum() <= instance["budget"]
        assert z.min() >= 0
        assert z.max() <= instance["zmax"]


def test_top_k_is_never_above_the_optimum_and_close_below_for_a_common_crest_factor() -> None:
    rng = np.random.default_rng(5)
    gaps = []
    for _ in range(600):
        workers = int(rng.integers(2, 8))
        p, kappa = rng.uniform(0, 0.6) + 0.1 * rng.random(workers), float(rng.uniform(1, 30))
        budget, zmax = int(rng.integers(1, 3 * workers)), int(rng.choice([4, 16]))
        top_k, exact = (
            utility(allocate_bits(p, budget, kappa=kappa, zmax=zmax, method=m), p, kappa=kappa)
            for m in ("top_k", "exact")
        )
        gaps.append(1 - top_k / exact)
    assert min(gaps) > -1e-12
    assert max(gaps) < 0.03
    assert np.mean(np.array(gaps) > 1e-9) < 0.02


def test_top_k_misses_the_exceptional_worker_in_its_convex_part() -> None:
    p = [0.04, 0.0401, 0.0402]
    top_k, exact = (
        utility(
            allocate_bits(p, 9, kappa=1.8, zmax=4, quantizer="rounding", method=m), p, kappa=1.8, quantizer="rounding"
        )
        for m in ("top_k", "exact")
    )
    assert top_k == pytest.approx(exact * (1 - 0.012885), rel=1e-5)


def test_greedy_is_optimal_where_utilities_are_concave() -> None:
    rng = np.random.default_rng(6)
    for _ in range(100):
        p = rng.uniform(0.2, 1, 5)
        kappa = 9 / 7 * float(p.min()) * rng.uniform(0.1, 1)
        greedy, exact = (
            utility(
                allocate_bits(p, 12, kappa=kappa, quantizer="rounding", method=m), p, kappa=kappa, quantizer="rounding"
            )
            for m in ("greedy", "exact")
        )
        assert greedy == pytest.approx(exact, rel=1e-10)


def test_exact_takes_under_a_second_of_the_processor_for_ten_thousand_workers() -> None:
    p = np.random.default_rng(7).random(10_000)
    times = []
    for _ in range(3):
        start = time.process_time()
        z = allocate_bits(p, 100_000, kappa=9.36)
        times.append(time.process_time() - start)
    assert z.sum() == 100_000
    assert min(times) < 1.0


def test_reliable_workers_get_no_fewer_bits_than_less_reliable_ones() -> None:
    p = np.sort(np.random.default_rng(8).random(50))
    z = allocate_bits(p, 120, kappa=9.36)
    assert np.all(np.diff(z) <= 0)


@pytest.mark.parametrize("method", METHODS)
def test_no_budget_gives_no_bits(method: str) -> None:
    assert allocate_bits([0.1, 0.5], 0, kappa=9.0, method=method).tolist() == [0, 0]  # type: ignore[arg-type]


def test_workers_that_never_arrive_get_no_bits() -> None:
    assert allocate_bits([1.0, 1.0], 10, kappa=9.0).tolist() == [0, 0]
    assert allocate_bits([1.0, 0.5], 4, kappa=9.0).tolist() == [0, 4]


@pytest.mark.parametrize("method", ["exact", "dp", "top_k", "greedy"])
@pytest.mark.parametrize("quantizer", ["qsgd", "norm"])
def test_one_bit_is_useless_to_a_sign_magnitude_quantiser_and_nobody_gets_it(method: Any, quantizer: Any) -> None:
    assert allocate_bits([0.1, 0.1], 1, kappa=9.0, quantizer=quantizer, method=method).tolist() == [0, 0]
    assert allocate_bits([0.1, 0.1], 2, kappa=9.0, quantizer=quantizer, method=method).tolist() == [2, 0]


def test_a_perfect_worker_makes_the_utility_infinite_and_leaves_bits_to_the_others() -> None:
    z = allocate_bits([0.0, 0.5], 6, kappa=[0.0, 9.0], zmax=8)
    assert z.tolist() == [1, 5]
    assert utility(z, [0.0, 0.5], kappa=[0.0, 9.0]) == float("inf")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"p": [0.1, 1.2]}, r"p\[1\] = 1.2 is not a straggling probability"),
        ({"p": [float("nan"), 0.2]}, r"p\[0\] = nan"),
        ({"p": []}, "one straggling probability per worker"),
        ({"budget": -1}, "budget must be at least 0, got -1"),
        ({"kappa": -1.0}, "kappa must be finite and not negative"),
        ({"kappa": [1.0, 2.0, 3.0]}, r"one number or one per worker \(2\)"),
        ({"zmax": 17}, "zmax must be from 1 to 16, the widest index that is packed, got 17"),
        ({"zmax": 0}, "zmax must be from 1 to 16"),
        ({"method": "best"}, "method must be one of 'exact', 'dp', 'top_k', 'greedy', 'equal', got 'best'"),
        ({"quantizer": "sign"}, "quantizer must be one of 'dither', 'rounding', .* got 'sign'"),
    ],
)
def test_bad_arguments_are_refused(change: dict[str, Any], message: str) -> None:
    arguments: dict[str, Any] = {"p": [0.1, 0.2], "budget": 4, "kappa": 9.0} | change
    with pytest.raises(ValueError, match=message):
        allocate_bits(**arguments)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"p": ["0.1", "0.2"]}, "p must be a number or an array of numbers, got"),
        ({"p": [True, False]}, "p must be a number or an array of numbers, got"),
        ({"budget": 2.5}, "budget must be an integer of at least 0, got 2.5"),
        ({"budget": "4"}, "budget must be an integer of at least 0, got '4'"),
        ({"kappa": None}, "kappa must be a number or an array of numbers, got None"),
        ({"zmax": 2.0}, "zmax must be an integer from 1 to 16, .* got 2.0"),
        ({"method": None}, "method must be one of .* got None"),
    ],
)
def test_arguments_of_the_wrong_kind_are_refused(change: dict[str, Any], message: str) -> None:
    arguments: dict[str, Any] = {"p": [0.1, 0.2], "budget": 4, "kappa": 9.0} | change
    with pytest.raises(TypeError, match=message):
        allocate_bits(**arguments)
