"""Dirichlet label and size skew follow their law, and give up with a useful message."""

import re
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import TensorDataset

from lightning_async.data import Dirichlet, QuantitySkew

NUM_WORKERS = 5


def labelled(labels: np.ndarray) -> TensorDataset:
    return TensorDataset(torch.zeros(len(labels), 1), torch.as_tensor(labels))


def fractions_of_one_class(alpha: float, draws: int, class_size: int = 200) -> np.ndarray:
    """Fractions of label 0, shape (draws, n). A second label keeps rejections by min_size rare (1e-3)."""
    labels = np.repeat([0, 1], class_size)
    dataset = labelled(labels)
    shards = (Dirichlet(alpha).assign(dataset, NUM_WORKERS, seed) for seed in range(draws))
    return np.array([[np.count_nonzero(shard < class_size) / class_size for shard in draw] for draw in shards])


@pytest.mark.parametrize("alpha", [1.0, 5.0])
def test_mean_class_fraction_is_one_over_n(alpha: float) -> None:
    fractions = fractions_of_one_class(alpha, draws=2000)
    standard_error = fractions.std(axis=0) / np.sqrt(len(fractions))
    assert np.all(np.abs(fractions.mean(axis=0) - 1 / NUM_WORKERS) < 4 * standard_error)


@pytest.mark.parametrize("alpha", [1.0, 5.0])
def test_variance_of_class_fraction_is_the_dirichlet_variance(alpha: float) -> None:
    class_size = 200
    fractions = fractions_of_one_class(alpha, draws=2000, class_size=class_size)
    theory = (1 / NUM_WORKERS) * (1 - 1 / NUM_WORKERS) / (NUM_WORKERS * alpha + 1)
    squares = (fractions - 1 / NUM_WORKERS) ** 2
    standard_error = squares.std(axis=0) / np.sqrt(len(squares))
    # Rounding to whole samples moves a fraction by less than one sample.
    rounding = 0.5 / class_size**2
    assert np.all(np.abs(squares.mean(axis=0) - theory) < 4 * standard_error + rounding)


def test_large_alpha_splits_every_class_evenly() -> None:
    labels = np.repeat(np.arange(10), 80)
    shards = Dirichlet(alpha=1e8).assign(labelled(labels), 8, seed=0)
    counts = np.stack([np.bincount(labels[shard], minlength=10) for shard in shards])
    assert np.abs(counts - 10).max() <= 1


def test_small_alpha_gives_each_class_to_few_workers() -> None:
    labels = np.repeat(np.arange(50), 40)
    shards = Dirichlet(alpha=0.02).assign(labelled(labels), 4, seed=0)
    counts = np.stack([np.bincount(labels[shard], minlength=50) for shard in shards])
    assert np.mean(counts.max(axis=0) / 40) > 0.9


def test_classes_of_one_sample_do_not_favour_a_worker() -> None:
    draws, num_classes = 200, 40
    dataset = labelled(np.arange(num_classes))
    sizes = np.array([[len(s) for s in Dirichlet(1.0).assign(dataset, NUM_WORKERS, seed)] for seed in range(draws)])
    standard_error = sizes.std(axis=0) / np.sqrt(draws)
    assert np.all(np.abs(sizes.mean(axis=0) - num_classes / NUM_WORKERS) < 4 * standard_error)


def test_which_samples_of_a_class_a_worker_gets_is_random() -> None:
    labels = np.zeros(400, dtype=np.int64)
    shards = Dirichlet(alpha=100.0).assign(labelled(labels), 2, seed=0)
    share_in_first_half = np.mean(shards[0] < 200)
    assert abs(share_in_first_half - 0.5) < 4 * np.sqrt(0.25 / len(shards[0]))


@pytest.mark.parametrize("partition", [Dirichlet(0.3, min_size=20), QuantitySkew(0.8, min_size=20)])
def test_every_shard_reaches_min_size(partition: Dirichlet | QuantitySkew) -> None:
    dataset = labelled(np.arange(600) % 10)
    smallest = [min(len(shard) for shard in partition.assign(dataset, NUM_WORKERS, seed)) for seed in range(30)]
    assert min(smallest) >= 20


@pytest.mark.parametrize("kind", [Dirichlet, QuantitySkew])
def test_unreachable_min_size_names_alpha_the_sizes_reached_and_the_remedy(kind: type[Dirichlet]) -> None:
    dataset = labelled(np.arange(200) % 4)
    with pytest.raises(
        ValueError, match=r"alpha=0\.01 .* min_size=15 .* 30 draws .* shards of \d+(, \d+)+.* Raise alpha"
    ):
        kind(alpha=0.01, min_size=15, max_tries=30).assign(dataset, 10, seed=0)


@pytest.mark.parametrize("kind", [Dirichlet, QuantitySkew])
def test_impossible_min_size_is_refused_without_drawing(kind: type[Dirichlet]) -> None:
    with pytest.raises(ValueError, match=r"11 samples for each of 10 workers .*110.* has 100: lower min_size to 10"):
        kind(alpha=1.0, min_size=11).assign(labelled(np.zeros(100, dtype=int)), 10, seed=0)


@pytest.mark.parametrize("kind", [Dirichlet, QuantitySkew])
@pytest.mark.parametrize(
    "arguments",
    [{"alpha": 0.0}, {"alpha": float("inf")}, {"alpha": 1.0, "min_size": 0}, {"alpha": 1.0, "max_tries": 0}],
)
def test_arguments_out_of_range_are_refused_at_construction(kind: type[Dirichlet], arguments: dict[str, float]) -> None:
    name = list(arguments)[-1]
    with pytest.raises(ValueError, match=f"{name} must be .*got {arguments[name]}"):
        kind(**arguments)


@pytest.mark.parametrize("kind", [Dirichlet, QuantitySkew])
@pytest.mark.parametrize(
    "arguments", [{"alpha": "1"}, {"alpha": 1.0, "min_size": 1.5}, {"alpha": 1.0, "max_tries": True}]
)
def test_arguments_of_the_wrong_kind_are_refused_at_construction(
    kind: type[Dirichlet], arguments: dict[str, Any]
) -> None:
    with pytest.raises(TypeError, match=f"{list(arguments)[-1]} must be"):
        kind(**arguments)


@pytest.mark.parametrize("by", [True, 1.5, [0, 1, 2], {}, b"x"])
def test_where_no_label_can_be_is_refused_at_construction(by: Any) -> None:
    allowed = "by must be a position .*, a name, a function of the sample .*, or None for the label, got "
    with pytest.raises(TypeError, match=allowed + re.escape(repr(by))):
        Dirichlet(alpha=1.0, by=by)


def test_quantity_skew_sizes_have_the_dirichlet_variance() -> None:
    draws, size, alpha = 2000, 1000, 2.0
    shares = np.array(
        [[len(s) / size for s in QuantitySkew(alpha).assign(range(size), NUM_WORKERS, seed)] for seed in range(draws)]
    )
    theory = (1 / NUM_WORKERS) * (1 - 1 / NUM_WORKERS) / (NUM_WORKERS * alpha + 1)
    squares = (shares - 1 / NUM_WORKERS) ** 2
    assert np.all(np.abs(squares.mean(axis=0) - theory) < 4 * squares.std(axis=0) / np.sqrt(draws) + 0.5 / size**2)


def test_quantity_skew_leaves_label_shares_alone() -> None:
    labels = np.repeat([0, 1], [3000, 1000])
    shards = QuantitySkew(1.0, min_size=50).assign(labelled(labels), 4, seed=3)
    for shard in shards:
        assert abs(labels[shard].mean() - 0.25) < 4 * np.sqrt(0.25 * 0.75 / len(shard))
