"""The report's counts, skew measures, table and plot."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console
from scipy.stats import hypergeom

from lightning_async.data import IID, partition_report
from lightning_async.data.partition_report import _hypergeometric_deviation

LABELS = np.array(["cat", "cat", "cat", "dog", "dog", "owl"])
SHARDS = [np.array([0, 1, 3]), np.array([2, 4, 5])]


def test_counts_sizes_and_labels_are_those_of_the_shards() -> None:
    report = partition_report(SHARDS, LABELS)
    assert report.labels == ("cat", "dog", "owl")
    assert report.counts.tolist() == [[2, 1, 0], [1, 1, 1]]
    assert report.sizes.tolist() == [3, 3]
    assert report.labels_per_worker.tolist() == [2, 3]


def test_total_variation_is_half_the_l1_distance_to_the_global_shares() -> None:
    np.testing.assert_allclose(partition_report(SHARDS, LABELS).total_variation, [1 / 6, 1 / 6])


def test_total_variation_is_zero_when_every_worker_has_the_global_shares() -> None:
    labels = np.tile([0, 0, 1], 4)
    shards = [np.arange(0, 6), np.arange(6, 12)]
    assert partition_report(shards, labels).mean_total_variation == pytest.approx(0.0, abs=1e-15)


def test_disjoint_labels_in_equal_shards_give_one_minus_one_over_n() -> None:
    labels = np.repeat(np.arange(5), 20)
    shards = np.split(np.arange(100), 5)
    assert partition_report(shards, labels).mean_total_variation == pytest.approx(0.8)


def test_reference_for_iid_shards_is_the_mean_over_random_partitions() -> None:
    labels = np.repeat(np.arange(4), [10, 20, 30, 61])
    reports = [partition_report(IID().assign(range(121), 6, seed), labels) for seed in range(1500)]
    measured = np.array([report.mean_total_variation for report in reports])
    standard_error = measured.std() / np.sqrt(len(measured))
    assert abs(measured.mean() - reports[0].mean_total_variation_iid) < 4 * standard_error


@settings(max_examples=100)
@given(total=st.integers(1, 60), data=st.data())
def test_hypergeometric_deviation_equals_the_sum_over_the_law(total: int, data: st.DataObject) -> None:
    marked, drawn = data.draw(st.integers(0, total)), data.draw(st.integers(1, total))
    law = hypergeom(total, marked, drawn)
    values = np.arange(total + 1)
    expected = np.sum(np.abs(values - marked * drawn / total) * law.pmf(values))
    assert _hypergeometric_deviation(total, marked, drawn) == pytest.approx(expected, abs=1e-9)


def test_markdown_has_one_row_per_worker_with_the_counts() -> None:
    lines = partition_report(SHARDS, LABELS).to_markdown().splitlines()
    assert lines[0] == "| worker | samples | labels | TV | cat | dog | owl |"
    assert lines[2:4] == ["| 0 | 3 | 2 | 0.167 | 2 | 1 | 0 |", "| 1 | 3 | 3 | 0.167 | 1 | 1 | 1 |"]
    assert "6 samples, 3 labels, 2 workers" in lines[-1]


def test_many_labels_are_summed_up_by_the_most_frequent() -> None:
    labels = np.concatenate([np.arange(40), np.full(60, 7)])
    markdown = partition_report([np.arange(100)], labels).to_markdown()
    assert "| 0 | 100 | 40 | 0.000 | 7 (61%), 0 (1%), 1 (1%) |" in markdown


def test_rich_table_prints() -> None:
    console = Console(width=100)
    with console.capture() as capture:
        console.print(partition_report(SHARDS, LABELS))
    assert "owl" in capture.get()


@pytest.mark.parametrize("suffix", ["png", "pdf"])
@pytest.mark.parametrize("num_labels", [3, 15, 50])
def test_plot_writes_the_format_of_the_suffix(tmp_path: Path, suffix: str, num_labels: int) -> None:
    labels = np.arange(300) % num_labels
    path = tmp_path / "plots" / f"labels.{suffix}"
    partition_report(IID().assign(range(300), 4, seed=0), labels).plot(path)
    assert path.read_bytes()[:4] == {"png": b"\x89PNG", "pdf": b"%PDF"}[suffix]


def test_plotted_bars_add_up_to_the_sizes_when_labels_are_merged() -> None:
    labels = np.arange(300) % 50
    report = partition_report(IID().assign(range(300), 4, seed=0), labels)
    counts, names, merged = report._plotted()
    assert merged
    assert names[-1] == "32 others"
    np.testing.assert_array_equal(counts.sum(axis=1), report.sizes)


def test_empty_shard_is_refused() -> None:
    with pytest.raises(ValueError, match=r"sizes \[3, 0\]"):
        partition_report([SHARDS[0], np.array([], dtype=np.int64)], LABELS)


def test_labels_of_another_dataset_are_refused() -> None:
    with pytest.raises(ValueError, match="index samples 0 to 5, there are 4 labels"):
        partition_report(SHARDS, LABELS[:4])
