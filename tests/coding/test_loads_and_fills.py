from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from lightning_async.coding import alias_fill, interval_fill, loads, proportional_loads, spread_fill

FILLS = {"interval": interval_fill, "alias": alias_fill, "spread": spread_fill}


def random_loads(rng: np.random.Generator, workers: int, partitions: int) -> np.ndarray:
    raw = rng.random(workers) ** 4 * (rng.random(workers) < 0.8)
    raw[rng.integers(workers)] += 0.1
    return raw * partitions / raw.sum()


def test_loads_are_the_reference_row_sums(instance: dict[str, Any]) -> None:
    s = loads(instance["z"], instance["p"], partitions=instance["K"], kappa=instance["kappa"], quantizer="rounding")
    np.testing.assert_allclose(s, instance["s"], rtol=1e-10, atol=1e-14)


def test_interval_fill_is_the_reference_matrix(instance: dict[str, Any]) -> None:
    code = interval_fill(instance["s"], instance["K"])
    np.testing.assert_allclose(code, instance["B_interval"], rtol=1e-9, atol=1e-12)
    assert np.count_nonzero(code) == instance["nnz"]
    assert np.count_nonzero(code, axis=0).max() == instance["interval_max_workers_per_partition"]


def test_alias_fill_is_no_deeper_than_the_reference(instance: dict[str, Any]) -> None:
    depth = np.count_nonzero(alias_fill(instance["s"], instance["K"]) > 1e-12, axis=0).max()
    assert depth <= instance["alias_max_workers_per_partition"]


@pytest.mark.parametrize("fill", FILLS)
def test_fills_have_the_loads_as_row_sums_and_unit_column_sums(fill: str) -> None:
    rng = np.random.default_rng(0)
    for _ in range(300):
        workers = int(rng.integers(1, 12))
        partitions = workers + int(rng.integers(0, 8))
        s = random_loads(rng, workers, partitions)
        code = FILLS[fill](s, partitions)
        assert code.min() >= 0
        np.testing.assert_allclose(code.sum(axis=1), s, atol=1e-9)
        np.testing.assert_allclose(code.sum(axis=0), 1.0, atol=1e-9)


def test_interval_fill_has_fewer_entries_than_workers_plus_partitions() -> None:
    rng = np.random.default_rng(1)
    for _ in range(200):
        workers, partitions = int(rng.integers(1, 20)), int(rng.integers(1, 20))
        code = interval_fill(random_loads(rng, workers, partitions), partitions)
        assert np.count_nonzero(code) <= workers + partitions - 1


def test_alias_fill_puts_at_most_two_workers_on_a_partition() -> None:
    rng = np.random.default_rng(2)
    for _ in range(300):
        workers = int(rng.integers(1, 20))
        code = alias_fill(random_loads(rng, workers, workers), workers)
        assert np.count_nonzero(code > 1e-12, axis=0).max() <= 2


def test_alias_fill_needs_as_many_partitions_as_used_workers() -> None:
    with pytest.raises(ValueError, match=r"got 2 for 3\. Use more partitions"):
        alias_fill([0.5, 0.75, 0.75], 2)


def test_spread_fill_is_computed_at_most_twice_per_rotation() -> None:
    s = random_loads(np.random.default_rng(3), 10, 10)
    for rotations in (1, 2, 5):
        assert np.count_nonzero(spread_fill(s, 10, rotations)) <= rotations * 19


def test_equal_loads_are_uncoded() -> None:
    for fill in FILLS.values():
        code = fill(np.ones(6), 6)
        if fill is not spread_fill:
            np.testing.assert_allclose(np.sort(code, axis=1)[:, -1], 1.0)


@pytest.mark.parametrize("bad", [[1.0, 1.5], [-1.0, 3.0], [[1.0, 1.0]], [], [float("nan"), 2.0]])
def test_loads_that_do_not_fit_the_partitions_are_refused(bad: Any) -> None:
    for fill in FILLS.values():
        with pytest.raises(ValueError, match="add up to the 2 partitions"):
            fill(bad, 2)


def test_the_cap_is_kept_and_the_rest_stays_proportional() -> None:
    s = loads([8, 6, 5, 4], [0.05, 0.1, 0.2, 0.3], partitions=8, kappa=9.0, cap=3.0)
    free = loads([8, 6, 5, 4], [0.05, 0.1, 0.2, 0.3], partitions=8, kappa=9.0)
    assert s.sum() == pytest.approx(8)
    assert s.max() <= 3.0 + 1e-12
    below = s < 3.0 - 1e-9
    np.testing.assert_allclose(s[below] / free[below], (s[below] / free[below])[0], rtol=1e-12)


def test_capped_loads_minimise_the_bound_under_the_cap() -> None:
    rng = np.random.default_rng(4)
    utilities = np.array([10.0, 4.0, 2.0, 1.0])
    s = proportional_loads(utilities, 4, cap=1.5)
    best = float((s**2 / utilities).sum())
    for _ in range(2000):
        other = np.clip(s + rng.normal(0, 0.2, 4), 0, 1.5)
        other *= 4 / other.sum()
        if other.max() <= 1.5:
            assert float((other**2 / utilities).sum()) >= best - 1e-12


def test_perfect_workers_share_all_partitions() -> None:
    s = loads([3, 3, 3], [0.0, 0.0, 0.4], partitions=5, kappa=[0.0, 0.0, 9.0])
    assert s.tolist() == [2.5, 2.5, 0.0]


def test_what_perfect_workers_may_not_hold_goes_to_the_others() -> None:
    assert proportional_loads(np.array([np.inf, 3.0, 1.0]), 6, cap=4.0).tolist() == [4.0, 1.5, 0.5]


def test_a_huge_and_a_tiny_utility_do_not_break_the_sum() -> None:
    s = proportional_loads(np.array([1e300, 1e-300, 1.0]), 3)
    assert s.sum() == pytest.approx(3.0)
    assert np.all(np.isfinite(s))


@pytest.mark.parametrize(("z", "p"), [([0, 0], [0.1, 0.2]), ([4, 4], [1.0, 1.0])])
def test_no_useful_worker_is_an_error_with_a_remedy(z: list[int], p: list[float]) -> None:
    with pytest.raises(ValueError, match=r"No worker is useful.*Raise the bit budget"):
        loads(z, p, partitions=2, kappa=9.0)


def test_a_cap_that_cannot_hold_all_partitions_is_an_error_with_a_remedy() -> None:
    with pytest.raises(ValueError, match=r"load cap of 1.5 on 2 used workers.*at least 2"):
        loads([4, 4, 0], [0.1, 0.2, 0.3], partitions=4, kappa=9.0, cap=1.5)


@pytest.mark.parametrize(
    ("z", "error"), [([17, 0], ValueError), ([-1, 2], ValueError), ([1.5, 2.0], TypeError), ([3], ValueError)]
)
def test_impossible_bits_are_refused(z: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match=r"z (needs|must)"):
        loads(z, [0.1, 0.2], partitions=2, kappa=9.0)
