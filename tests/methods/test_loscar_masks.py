"""Random coordinates: exact sizes, uniform subsets, the same for everybody."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from lightning_async.methods.masks import RandomMask, random_subset


@given(population=st.integers(1, 400), data=st.data(), seed=st.integers(0, 2**32))
@settings(max_examples=100)
def test_a_subset_has_distinct_ascending_members_and_the_right_size(population, data, seed):
    size = data.draw(st.integers(0, population))
    subset = random_subset(population, size, np.random.default_rng(seed))
    assert len(subset) == size
    assert (np.diff(subset) > 0).all()
    assert size == 0 or 0 <= subset[0] <= subset[-1] < population


@pytest.mark.parametrize(
    ("population", "size"),
    [(6, 3), (7, 2), (7, 5), (129, 2)],
    ids=["half", "marked", "complement", "sorted"],
)
def test_every_subset_is_equally_likely(population, size):
    generator = np.random.default_rng(1)
    subsets = dict.fromkeys(combinations(range(population), size), 0)
    for _ in range(12 * len(subsets) if len(subsets) > 100 else 6_000):
        subsets[tuple(random_subset(population, size, generator).tolist())] += 1
    assert chisquare(list(subsets.values())).pvalue > 1e-3


def test_a_few_of_very_many_coordinates_are_drawn_without_a_permutation():
    assert len(random_subset(10**12, 5, np.random.default_rng(0))) == 5


@pytest.mark.parametrize(("sparsity", "num_coordinates"), [(0.001, 123), (0.1, 123), (0.37, 10), (0.999, 5)])
def test_the_expected_size_is_the_fraction_of_the_coordinates(sparsity, num_coordinates):
    mask = RandomMask(sparsity)
    sizes = np.array([mask.size(round, num_coordinates, seed=3) for round in range(4_000)])
    expected = sparsity * num_coordinates
    assert set(sizes) <= {np.floor(expected), np.ceil(expected)}
    part = expected - np.floor(expected)
    assert abs(sizes.mean() - expected) <= 4 * np.sqrt(part * (1 - part) / len(sizes)) + 1e-12


@pytest.mark.parametrize(("sparsity", "size"), [(0.0, 0), (1.0, 50), (0.5, 25)])
def test_a_whole_number_of_coordinates_is_not_random(sparsity, size):
    assert {RandomMask(sparsity).size(round, 50, seed=0) for round in range(50)} == {size}


def test_a_mask_is_a_function_of_seed_and_round():
    mask = RandomMask(0.2)
    drawn = {(seed, round): tuple(mask.indices(round, 100, seed)) for seed in range(3) for round in range(3)}
    assert len(set(drawn.values())) == 9
    again = RandomMask(0.2)
    for (seed, round), indices in reversed(drawn.items()):
        assert tuple(again.indices(round, 100, seed)) == indices


def test_size_and_indices_agree():
    mask = RandomMask(0.013)
    for round in range(200):
        assert len(mask.indices(round, 123, seed=5)) == mask.size(round, 123, seed=5)
