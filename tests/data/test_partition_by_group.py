"""Natural ownership: groups stay whole and are balanced by size."""

import re
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils.data import Dataset

from lightning_async.data import ByGroup


class Roles(Dataset[dict[str, object]]):
    """Lines of a play; every sample knows its role, and so does the dataset as a whole."""

    def __init__(self, groups: list[str]) -> None:
        self.groups = groups

    def __len__(self) -> int:
        return len(self.groups)

    def __getitem__(self, index: int) -> dict[str, object]:
        raise AssertionError("groups are stored: no sample may be read")


group_lists = st.lists(st.sampled_from([f"role {index}" for index in range(12)]), min_size=80, max_size=200).map(
    lambda groups: [*groups, *(f"role {index}" for index in range(12))]
)


@settings(max_examples=60)
@given(groups=group_lists, num_workers=st.integers(1, 12), seed=st.integers(0, 1000))
def test_a_group_is_never_split(groups: list[str], num_workers: int, seed: int) -> None:
    shards = ByGroup().assign(Roles(groups), num_workers, seed)
    owned = [{groups[index] for index in shard} for shard in shards]
    assert sum(map(len, owned)) == len(set(groups))


@settings(max_examples=60)
@given(groups=group_lists, num_workers=st.integers(2, 12), seed=st.integers(0, 1000))
def test_every_worker_was_the_emptiest_before_its_last_and_smallest_group(
    groups: list[str], num_workers: int, seed: int
) -> None:
    shards = ByGroup().assign(Roles(groups), num_workers, seed)
    smallest_group = [min(Counter(groups[index] for index in shard).values()) for shard in shards]
    least_load = min(map(len, shards))
    assert all(len(shard) - last <= least_load for shard, last in zip(shards, smallest_group, strict=True))


def test_as_many_groups_as_workers_follow_the_order_of_the_names_for_every_seed() -> None:
    groups = ["c", "a", "b", "a", "c"]
    for seed in range(5):
        shards = ByGroup().assign(Roles(groups), 3, seed)
        assert [shard.tolist() for shard in shards] == [[1, 3], [2], [0, 4]]


def test_the_largest_group_goes_to_every_worker_equally_often() -> None:
    groups = ["large"] * 50 + [f"small {index}" for index in range(40)]
    dataset, num_workers, draws = Roles(groups), 4, 800
    owner = [
        next(worker for worker, shard in enumerate(ByGroup().assign(dataset, num_workers, seed)) if 0 in shard)
        for seed in range(draws)
    ]
    shares = np.bincount(owner, minlength=num_workers) / draws
    assert np.all(np.abs(shares - 0.25) < 4 * np.sqrt(0.25 * 0.75 / draws))


def test_fewer_groups_than_workers_is_a_value_error_with_both_numbers() -> None:
    with pytest.raises(ValueError, match=r"2 groups \('a', 'b'\) for 3 workers: use at most 2"):
        ByGroup().assign(Roles(["a", "b", "a", "b"]), 3, seed=0)


@pytest.mark.parametrize("by", [None, True, 1.5, [0, 1, 2], {}, b"x"])
def test_what_is_no_position_name_or_function_is_refused_at_construction(by: Any) -> None:
    allowed = "by must be a position (an integer), a name, a function of the sample or its name as "
    with pytest.raises(TypeError, match=re.escape(f"{allowed}package.module:function, got {by!r}")):
        ByGroup(by)


@pytest.mark.parametrize("by", ["role", 0, -1, np.int64(1), len, "builtins:len"])
def test_positions_names_and_functions_are_taken(by: Any) -> None:
    assert ByGroup(by).by is by


def test_a_function_name_that_does_not_import_is_refused_at_construction() -> None:
    with pytest.raises(ValueError, match=r"no\.such\.module:role.*package\.module:function"):
        ByGroup(by="no.such.module:role")


def test_a_function_is_known_by_what_it_does_and_not_by_where_it_is() -> None:
    def by_remainder(divisor: int) -> Callable[[int], int]:
        return lambda sample: sample % divisor

    once, again, another = (ByGroup(by=by_remainder(divisor)) for divisor in (2, 2, 3))
    assert "0x" not in repr(once)
    assert repr(once) == repr(again) != repr(another)
    assert once == again != another
