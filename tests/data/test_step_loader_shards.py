from collections.abc import Iterator
from itertools import chain, count
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, WeightedRandomSampler

from lightning_async.data import IID, Partition
from lightning_async.data.partition import IndexArray
from lightning_async.data.step_loader import StepLoader
from lightning_async.simulation import Job, Step

SIZES = (1, 2, 5, 16)  # shards smaller than a mini-batch, equal to it, and larger
WORKERS = len(SIZES)


class OfGivenSizes(Partition):
    """Interleaved shards of the sizes above."""

    def assign(self, dataset: Any, num_workers: int, seed: int) -> list[IndexArray]:
        assert num_workers == WORKERS
        order = np.random.default_rng(0).permutation(sum(SIZES))
        return [np.sort(part) for part in np.split(order, np.cumsum(SIZES)[:-1])]


SHARDS = [set(shard.tolist()) for shard in OfGivenSizes().assign(None, WORKERS, 0)]


class Noisy(Dataset[Any]):
    def __len__(self) -> int:
        return sum(SIZES)

    def __getitem__(self, index: int) -> Any:
        return torch.tensor([index, torch.rand(()).item(), np.random.randn()], dtype=torch.float64)


def worker_of(turn: int) -> int:
    """An irregular order of the workers, in which some are far more frequent."""
    return (turn * turn + turn // 3) % 7 % WORKERS


def schedule(jobs_per_step: int | None = 1) -> Iterator[Step]:
    turn = 0
    for index in count():
        number = index % 3 if jobs_per_step is None else jobs_per_step
        workers = [worker_of(turn + j) for j in range(number)]
        yield Step(index, float(index), tuple(Job(worker, index, index, worker) for worker in workers))
        turn += number


def step_loader(jobs_per_step: int | None = 1, partition: Partition | None = None, **kwargs: Any) -> StepLoader:
    loader_arguments = {"batch_size": 2, "shuffle": True, **kwargs}
    return StepLoader(
        DataLoader(Noisy(), **loader_arguments),
        seed=3,
        jobs_per_step=jobs_per_step,
        schedule=lambda: schedule(jobs_per_step),
        partition=partition or OfGivenSizes(),
        num_workers=WORKERS,
    )


def play(loader: StepLoader, steps: int, leave_after: tuple[int, ...] = ()) -> list[Any]:
    items: list[Any] = []
    while len(items) < steps:
        for item in loader:
            items.append(item)
            loader.commit()
            if len(items) == steps or len(items) in leave_after:
                break
    return items


def batches(items: list[Any]) -> list[Any]:
    """All mini-batches, in order."""
    return list(chain.from_iterable([item] if isinstance(item, torch.Tensor) else item for item in items))


def samples(batch: Any) -> list[int]:
    return [int(index) for index in batch[:, 0]]


COUNTS = pytest.mark.parametrize("jobs_per_step", [1, 3, None])


@COUNTS
def test_every_job_gets_samples_of_its_worker(jobs_per_step: int | None) -> None:
    for turn, batch in enumerate(batches(play(step_loader(jobs_per_step), 60))):
        assert set(samples(batch)) <= SHARDS[worker_of(turn)]


@pytest.mark.parametrize("shuffle", [False, True])
def test_a_worker_sees_each_of_its_samples_once_in_every_epoch_of_its_own(shuffle: bool) -> None:
    seen: list[list[int]] = [[] for _ in SIZES]
    for turn, batch in enumerate(batches(play(step_loader(1, shuffle=shuffle), 200))):
        seen[worker_of(turn)] += samples(batch)
    for shard, stream in zip(SHARDS, seen, strict=True):
        passes = [stream[start : start + len(shard)] for start in range(0, len(stream), len(shard))]
        assert len(passes) > 2
        for one in passes[:-1]:
            assert set(one) == shard
        if not shuffle:
            assert all(one == sorted(shard) for one in passes[:-1])


def test_a_workers_stream_does_not_depend_on_when_its_turns_come() -> None:
    def streams(jobs_per_step: int | None) -> list[list[Any]]:
        read: list[list[Any]] = [[] for _ in SIZES]
        for turn, batch in enumerate(batches(play(step_loader(jobs_per_step), 40))):
            read[worker_of(turn)].append(batch.tolist())
        return read

    for one, other in zip(streams(1), streams(3), strict=True):
        shared = min(len(one), len(other))
        assert one[:shared] == other[:shared]


@pytest.mark.parametrize("drop_last", [False, True])
def test_shards_smaller_than_a_mini_batch_give_what_they_have(drop_last: bool) -> None:
    sizes: list[set[int]] = [set() for _ in SIZES]
    for turn, batch in enumerate(batches(play(step_loader(1, drop_last=drop_last), 100))):
        sizes[worker_of(turn)].add(len(batch))
    assert sizes == [{1}, {2}, {2} if drop_last else {1, 2}, {2}]


@COUNTS
@pytest.mark.parametrize("num_workers", [0, 2])
def test_seeking_continues_the_uninterrupted_run(jobs_per_step: int | None, num_workers: int) -> None:
    def lists(items: list[Any]) -> list[Any]:
        return [batch.tolist() for batch in batches(items)]

    whole = lists(play(step_loader(jobs_per_step), 16))
    for stop in (1, 4, 5, 9):
        interrupted = step_loader(jobs_per_step, num_workers=num_workers)
        first = play(interrupted, stop, leave_after=(3,))
        resumed = step_loader(jobs_per_step, num_workers=num_workers)
        resumed.seek(interrupted.completed, {shard: tuple(at) for shard, at in interrupted.positions.items()})
        assert lists(first) + lists(play(resumed, 16 - stop)) == whole


def test_a_limited_pass_holds_equal_parts_of_all_workers() -> None:
    loader = StepLoader(
        DataLoader(Noisy(), batch_size=2),
        seed=3,
        jobs_per_step=1,
        schedule=schedule,
        partition=OfGivenSizes(),
        num_workers=WORKERS,
        max_steps_per_epoch=2 * WORKERS,
    )
    seen: list[list[int]] = [[] for _ in SIZES]
    for turn, batch in enumerate(batches(play(loader, 100))):
        seen[worker_of(turn)] += samples(batch)
    assert [len(set(stream)) for stream in seen] == [1, 2, 4, 4]  # two mini-batches of each, over and over


class Numbers(IterableDataset[Any]):
    def __iter__(self) -> Iterator[int]:
        return iter(range(5))


@pytest.mark.parametrize(
    ("loader", "message"),
    [
        (DataLoader(Numbers(), batch_size=2), "DataLoader over Numbers, an IterableDataset"),
        ([torch.zeros(2)], "got list"),
        (DataLoader(Noisy(), batch_size=None), "give the DataLoader a batch_size"),
        (DataLoader(Noisy(), batch_sampler=[[0, 1], [2]]), "in place of a batch_sampler"),
        (DataLoader(Noisy(), sampler=WeightedRandomSampler([1.0] * 24, 24)), "cannot use a WeightedRandomSampler"),
        (
            DataLoader(Noisy(), sampler=torch.utils.data.RandomSampler(Noisy(), replacement=True)),
            "cannot use a RandomSampler with replacement",
        ),
    ],
    ids=["IterableDataset", "list", "no batches", "batch_sampler", "weighted", "with replacement"],
)
def test_data_that_cannot_be_split_are_refused_with_the_reason(loader: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        StepLoader(loader, seed=0, jobs_per_step=1, schedule=schedule, partition=IID(), num_workers=2)
