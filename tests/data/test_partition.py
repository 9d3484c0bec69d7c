"""What every partition promises, whatever its model."""

import copy
import pickle
from collections.abc import Iterator

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonargparse import ArgumentParser
from torch.utils.data import IterableDataset, TensorDataset

from lightning_async.data import IID, ByGroup, Dirichlet, Partition, QuantitySkew, Shards

PARTITIONS = [IID(), Dirichlet(alpha=0.5), Shards(per_worker=2), QuantitySkew(alpha=1.0), ByGroup(by=1)]
all_partitions = pytest.mark.parametrize("partition", PARTITIONS, ids=lambda partition: type(partition).__name__)


def labelled(labels: np.ndarray | list[int]) -> TensorDataset:
    labels = torch.as_tensor(np.asarray(labels))
    return TensorDataset(torch.zeros(len(labels), 1), labels)


class Stream(IterableDataset[int]):
    def __iter__(self) -> Iterator[int]:
        return iter(range(100))


class StreamWithLength(Stream):
    def __len__(self) -> int:
        return 100


class WithoutLength(torch.utils.data.Dataset[int]):
    def __getitem__(self, index: int) -> int:
        return index


@st.composite
def problems(draw: st.DrawFn) -> tuple[TensorDataset, int, int]:
    num_workers = draw(st.integers(1, 8))
    # Twenty labels at least once each: enough groups and pieces for every model and 8 workers.
    labels = list(range(20)) + draw(st.lists(st.integers(0, 19), min_size=100, max_size=300))
    return labelled(labels), num_workers, draw(st.integers(0, 2**40))


@all_partitions
@settings(max_examples=40)
@given(problem=problems())
def test_every_sample_has_exactly_one_owner(partition: Partition, problem: tuple[TensorDataset, int, int]) -> None:
    dataset, num_workers, seed = problem
    shards = partition.assign(dataset, num_workers, seed)
    np.testing.assert_array_equal(np.sort(np.concatenate(shards)), np.arange(len(dataset)))


@all_partitions
@settings(max_examples=40)
@given(problem=problems())
def test_shards_are_nonempty_sorted_int64_one_per_worker(
    partition: Partition, problem: tuple[TensorDataset, int, int]
) -> None:
    dataset, num_workers, seed = problem
    shards = partition.assign(dataset, num_workers, seed)
    assert len(shards) == num_workers
    for shard in shards:
        assert shard.dtype == np.int64
        assert len(shard) > 0
        assert np.all(np.diff(shard) > 0)


@all_partitions
@settings(max_examples=20)
@given(problem=problems())
def test_same_seed_gives_same_shards_whatever_the_global_random_state(
    partition: Partition, problem: tuple[TensorDataset, int, int]
) -> None:
    first = partition.assign(*problem)
    np.random.seed(1)
    torch.manual_seed(1)
    second = copy.deepcopy(partition).assign(*problem)
    for one, other in zip(first, second, strict=True):
        np.testing.assert_array_equal(one, other)


@all_partitions
def test_seed_changes_the_shards(partition: Partition) -> None:
    dataset = labelled(np.arange(200) % 20)
    first, second = (partition.assign(dataset, 5, seed) for seed in (0, 1))
    assert any(not np.array_equal(one, other) for one, other in zip(first, second, strict=True))


@all_partitions
def test_assign_does_not_touch_the_global_random_states(partition: Partition) -> None:
    dataset = labelled(np.arange(200) % 20)
    torch_before, numpy_before = torch.get_rng_state(), np.random.get_state()[1].copy()
    partition.assign(dataset, 4, seed=0)
    assert torch.equal(torch_before, torch.get_rng_state())
    np.testing.assert_array_equal(numpy_before, np.random.get_state()[1])


@all_partitions
def test_pickle_round_trip_is_equal_and_has_equal_hash(partition: Partition) -> None:
    restored = pickle.loads(pickle.dumps(partition))
    assert restored == partition
    assert hash(restored) == hash(partition)


@all_partitions
def test_repr_is_the_constructor_call(partition: Partition) -> None:
    assert eval(repr(partition)) == partition


@pytest.mark.parametrize(
    ("name", "init_args", "expected"),
    [
        ("IID", {}, IID()),
        ("Dirichlet", {"alpha": 0.5, "min_size": 10}, Dirichlet(0.5, 10)),
        ("Shards", {"per_worker": 2}, Shards(2)),
        ("QuantitySkew", {"alpha": 1}, QuantitySkew(1.0)),
        ("ByGroup", {"by": "role"}, ByGroup("role")),
        ("ByGroup", {"by": 1}, ByGroup(1)),
        ("ByGroup", {"by": "builtins:len"}, ByGroup("builtins:len")),
    ],
)
def test_configuration_block_gives_the_partition_and_survives_being_saved(
    name: str, init_args: dict[str, object], expected: Partition
) -> None:
    parser = ArgumentParser(exit_on_error=False)
    parser.add_argument("--partition", type=Partition)
    config = parser.parse_object({"partition": {"class_path": f"lightning_async.data.{name}", "init_args": init_args}})
    saved = parser.parse_string(parser.dump(config))
    assert parser.instantiate_classes(saved).partition == expected


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (Dirichlet(0.5), Dirichlet(0.4)),
        (Dirichlet(0.5), QuantitySkew(0.5)),
        (Shards(2), Shards(2, by="labels")),
        (ByGroup("role"), ByGroup("writer")),
    ],
)
def test_different_arguments_or_types_are_not_equal(one: Partition, other: Partition) -> None:
    assert one != other


@all_partitions
@pytest.mark.parametrize("dataset", [Stream(), StreamWithLength()])
def test_iterable_dataset_is_a_type_error_naming_the_remedy(partition: Partition, dataset: Stream) -> None:
    with pytest.raises(TypeError, match=r"IterableDataset.*map-style"):
        partition.assign(dataset, 2, seed=0)


@all_partitions
def test_dataset_without_length_is_a_type_error(partition: Partition) -> None:
    with pytest.raises(TypeError, match="WithoutLength has no __len__"):
        partition.assign(WithoutLength(), 2, seed=0)


@all_partitions
def test_fewer_samples_than_workers_is_a_value_error_with_both_numbers(partition: Partition) -> None:
    with pytest.raises(ValueError, match=r"3 samples .* 4 workers"):
        partition.assign(labelled([0, 1, 2]), 4, seed=0)


@all_partitions
def test_no_workers_is_a_value_error(partition: Partition) -> None:
    with pytest.raises(ValueError, match="num_workers=0"):
        partition.assign(labelled([0, 1, 2]), 0, seed=0)


def test_iid_sizes_differ_by_at_most_one() -> None:
    sizes = [len(shard) for shard in IID().assign(range(103), 8, seed=0)]
    assert max(sizes) - min(sizes) == 1


def test_iid_gives_every_sample_to_every_worker_equally_often() -> None:
    draws, num_workers, size = 4000, 4, 12
    owned = np.zeros((num_workers, size))
    for seed in range(draws):
        for worker, shard in enumerate(IID().assign(range(size), num_workers, seed)):
            owned[worker, shard] += 1
    error = np.abs(owned / draws - 1 / num_workers)
    # 48 cells are looked at together: five standard errors instead of four.
    assert error.max() < 5 * np.sqrt(0.25 * 0.75 / draws)
