"""What the steps of a run read from data without an index."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch.utils.data import (
    DataLoader,
    IterableDataset,
)

from lightning_async.data.step_loader import StepLoader
from tests.data.step_loaders import EVERY_COUNT, JOBS, Noisy, indices, play, step_loader


class Stream(IterableDataset[Any]):
    def __init__(self, size: int) -> None:
        self.size = size

    def __iter__(self) -> Iterator[Any]:
        for index in range(self.size):
            yield torch.tensor([index, 0, 0, 0])


class SizedStream(Stream):
    def __len__(self) -> int:
        return self.size


ITERABLES: dict[str, Callable[[], Any]] = {
    "IterableDataset": lambda: DataLoader(Stream(10), batch_size=2),
    "sized IterableDataset": lambda: DataLoader(SizedStream(10), batch_size=2),
    "list": lambda: [torch.tensor([[2 * k, 0, 0, 0], [2 * k + 1, 0, 0, 0]]) for k in range(5)],
}


@pytest.mark.filterwarnings("ignore:the training data")
@pytest.mark.parametrize("name", ITERABLES)
@EVERY_COUNT
def test_iterables_are_read_in_order_and_leftovers_open_the_next_epoch(name: str, jobs: str) -> None:
    read = indices(play(step_loader(ITERABLES[name](), JOBS[jobs]), 17))
    assert read == [k % 10 for k in range(len(read))]


@pytest.mark.filterwarnings("ignore:the training data")
@pytest.mark.parametrize("name", ITERABLES)
@pytest.mark.parametrize(("jobs_per_step", "lengths"), [(1, [5, 5, 5]), (2, [3, 2, 3]), (5, [1, 1, 1])])
def test_an_epoch_of_an_iterable_ends_with_the_step_that_finishes_a_pass(
    name: str, jobs_per_step: int, lengths: list[int]
) -> None:
    loader = step_loader(ITERABLES[name](), jobs_per_step)
    if name == "IterableDataset":
        assert [sum(1 for _ in self_committing(loader)) for _ in range(3)] == lengths
    else:
        assert len(loader) == max(1, 5 // jobs_per_step)


def self_committing(loader: StepLoader) -> Iterator[Any]:
    for item in loader:
        yield item
        loader.commit()


@pytest.mark.filterwarnings("ignore:the training data")
def test_limited_epochs_of_an_iterable_begin_at_its_beginning() -> None:
    loader = step_loader(ITERABLES["IterableDataset"](), 1, max_steps_per_epoch=2)
    assert indices(play(loader, 4, leave_after=(2,))) == [0, 1, 2, 3] * 2


@pytest.mark.filterwarnings("ignore:the training data")
def test_seeking_in_an_iterable_restarts_its_epoch() -> None:
    loader = step_loader(ITERABLES["list"](), 1)
    loader.seek(7, {})
    assert indices(play(loader, 5)) == list(range(10))


@pytest.mark.parametrize("name", ITERABLES)
def test_iterables_come_with_a_warning_that_resuming_restarts_their_epoch(name: str) -> None:
    with pytest.warns(UserWarning, match="reads that epoch from its beginning"):
        step_loader(ITERABLES[name]())


def test_a_loader_with_an_iteration_of_its_own_is_read_through_it() -> None:
    class Reversed(DataLoader[Any]):
        def __iter__(self) -> Any:
            return reversed(list(super().__iter__()))

    with pytest.warns(UserWarning, match="Reversed"):
        loader = step_loader(Reversed(Noisy(), batch_size=4))
    assert indices(play(loader, 1)) == [20, 21]


@pytest.mark.filterwarnings("ignore:the training data")
def test_an_empty_iterable_is_an_error_and_not_an_endless_loop() -> None:
    with pytest.raises(RuntimeError, match="empty"):
        play(step_loader(DataLoader(Stream(0), batch_size=2)), 1)
