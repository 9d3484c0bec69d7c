import gc
import random
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, count, islice
from typing import Any

import numpy as np
import pytest
import torch
from lightning.pytorch.utilities.combined_loader import _shutdown_workers_and_reset_iterator
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    Dataset,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
    WeightedRandomSampler,
)

from lightning_async.data.step_loader import StepLoader
from lightning_async.simulation import Job, Step

SIZE = 22


class Noisy(Dataset[Any]):
    """Samples know their index, and carry noise from the three libraries."""

    def __len__(self) -> int:
        return SIZE

    def __getitem__(self, index: int) -> Any:
        return torch.tensor([index, torch.rand(()).item(), np.random.randn(), random.random()], dtype=torch.float64)


class LazyNumpySampler:
    def __iter__(self) -> Iterator[int]:
        for _ in range(SIZE):
            yield int(np.random.randint(SIZE))

    def __len__(self) -> int:
        return SIZE


class Infinite:
    def __iter__(self) -> Iterator[int]:
        while True:
            yield int(torch.randint(SIZE, ()))


LOADERS: dict[str, Callable[..., DataLoader[Any]]] = {
    "shuffled": lambda **kw: DataLoader(Noisy(), batch_size=4, shuffle=True, **kw),
    "in order": lambda **kw: DataLoader(Noisy(), batch_size=4, **kw),
    "drop_last": lambda **kw: DataLoader(Noisy(), batch_size=4, shuffle=True, drop_last=True, **kw),
    "weighted": lambda **kw: DataLoader(Noisy(), batch_size=4, sampler=WeightedRandomSampler([1.0] * SIZE, SIZE), **kw),
    "lazy numpy": lambda **kw: DataLoader(Noisy(), batch_size=4, sampler=LazyNumpySampler(), **kw),
    "own generator": lambda **kw: DataLoader(
        Noisy(), batch_size=4, shuffle=True, generator=torch.Generator().manual_seed(3), **kw
    ),
    "batch_sampler": lambda **kw: DataLoader(
        Noisy(), batch_sampler=BatchSampler(RandomSampler(range(SIZE)), 4, drop_last=False), **kw
    ),
    "no batches": lambda **kw: DataLoader(Noisy(), batch_size=None, shuffle=True, **kw),
    "infinite": lambda **kw: DataLoader(Noisy(), batch_size=4, sampler=Infinite(), **kw),
    "one mini-batch": lambda **kw: DataLoader(Noisy(), batch_size=SIZE + 1, shuffle=True, **kw),
}

VARYING = [1, 0, 2, 5, 0, 0, 1, 3]
JOBS: dict[str, int | None] = {"one job": 1, "three jobs": 3, "eight jobs": 8, "varying jobs": None}


def varying_schedule() -> Iterator[Step]:
    for index in count():
        jobs = tuple(Job(worker, index, index) for worker in range(VARYING[index % len(VARYING)]))
        yield Step(index, float(index), jobs)


def step_loader(loader: Any, jobs_per_step: int | None = 1, **kwargs: Any) -> StepLoader:
    arguments = {"seed": 5, "schedule": varying_schedule, "num_workers": 4, **kwargs}
    return StepLoader(loader, jobs_per_step=jobs_per_step, **arguments)


def play(loader: StepLoader, steps: int, leave_after: Iterable[int] = ()) -> list[Any]:
    """Make steps as a Trainer does: epoch by epoch, each step committed when it has been made."""
    items: list[Any] = []
    leave = set(leave_after)
    while len(items) < steps:
        for item in loader:
            items.append(item)
            loader.commit()
            if len(items) == steps or len(items) in leave:
                break
    return items


def as_lists(items: Any) -> Any:
    return items.tolist() if isinstance(items, torch.Tensor) else [as_lists(item) for item in items]


def indices(items: Any) -> list[int]:
    """Indices of all samples, in order."""
    if isinstance(items, torch.Tensor):
        return [int(row[0]) for row in items.reshape(-1, 4)]
    return list(chain.from_iterable(indices(item) for item in items))


EVERY_LOADER = pytest.mark.parametrize("name", LOADERS)
EVERY_COUNT = pytest.mark.parametrize("jobs", JOBS)
FIXED_AND_VARYING = pytest.mark.parametrize("jobs", ["three jobs", "varying jobs"])


@EVERY_COUNT
def test_an_item_holds_a_mini_batch_for_every_job_of_its_step(jobs: str) -> None:
    items = play(step_loader(LOADERS["in order"](), JOBS[jobs]), 16)
    if JOBS[jobs] == 1:
        assert all(isinstance(item, torch.Tensor) for item in items)
    else:
        assert all(isinstance(item, list) for item in items)
        assert [len(item) for item in items] == [JOBS[jobs] or VARYING[k % len(VARYING)] for k in range(16)]


@EVERY_COUNT
@pytest.mark.parametrize("num_workers", [0, 2])
def test_nothing_is_lost_or_repeated_however_many_jobs_a_step_has(jobs: str, num_workers: int) -> None:
    items = play(step_loader(LOADERS["in order"](num_workers=num_workers), JOBS[jobs]), 20)
    read = indices(items)
    assert read == [k % SIZE for k in range(len(read))]


@EVERY_LOADER
@FIXED_AND_VARYING
def test_loading_processes_change_nothing(name: str, jobs: str) -> None:
    alone = play(step_loader(LOADERS[name](), JOBS[jobs]), 9)
    helped = play(step_loader(LOADERS[name](num_workers=2), JOBS[jobs]), 9)
    assert as_lists(alone) == as_lists(helped)


@EVERY_LOADER
@EVERY_COUNT
def test_seeking_continues_the_uninterrupted_run(name: str, jobs: str) -> None:
    whole = as_lists(play(step_loader(LOADERS[name](), JOBS[jobs]), 16))
    for stop in range(10):
        interrupted = step_loader(LOADERS[name](), JOBS[jobs])
        first = play(interrupted, stop)
        torch.rand(3), np.random.randn(), random.random()
        resumed = step_loader(LOADERS[name](), JOBS[jobs])
        resumed.seek(interrupted.completed, interrupted.positions)
        assert as_lists(first) + as_lists(play(resumed, 16 - stop)) == whole


@pytest.mark.parametrize("persistent", [False, True])
@FIXED_AND_VARYING
def test_seeking_with_loading_processes_ignores_what_they_read_ahead(jobs: str, persistent: bool) -> None:
    def make() -> StepLoader:
        loader = LOADERS["shuffled"](num_workers=2, prefetch_factor=4, persistent_workers=persistent)
        return step_loader(loader, JOBS[jobs])

    whole = as_lists(play(step_loader(LOADERS["shuffled"](), JOBS[jobs]), 12))
    for stop in (1, 4, 7):
        interrupted = make()
        play(interrupted, stop)
        resumed = make()
        resumed.seek(interrupted.completed, interrupted.positions)
        assert as_lists(play(resumed, 12 - stop)) == whole[stop:]


@FIXED_AND_VARYING
@pytest.mark.parametrize("kwargs", [{}, {"num_workers": 2}, {"num_workers": 2, "persistent_workers": True}])
def test_leaving_epochs_early_loses_and_repeats_nothing(jobs: str, kwargs: dict[str, Any]) -> None:
    whole = play(step_loader(LOADERS["shuffled"](), JOBS[jobs]), 14)
    left = play(step_loader(LOADERS["shuffled"](**kwargs), JOBS[jobs]), 14, leave_after=(1, 2, 6, 11))
    assert as_lists(left) == as_lists(whole)


def test_a_step_that_was_read_and_not_made_is_read_again() -> None:
    loader = step_loader(LOADERS["shuffled"](), 2)
    played = play(loader, 2)
    unmade = [as_lists(list(islice(loader, 3))) for _ in range(2)]
    assert unmade[0] == unmade[1]
    assert unmade[0] == as_lists(play(step_loader(LOADERS["shuffled"](), 2), 5))[2:]
    assert len(played) == 2


@pytest.mark.parametrize("name", ["shuffled", "own generator", "batch_sampler", "no batches"])
def test_an_epoch_of_single_jobs_is_a_pass_over_the_data(name: str) -> None:
    loader = step_loader(LOADERS[name](), 1)
    epochs = [indices(play(loader, len(loader))) for _ in range(3)]
    assert all(sorted(epoch) == list(range(SIZE)) for epoch in epochs)
    assert epochs[0] != epochs[1] != epochs[2]


@pytest.mark.parametrize(("jobs_per_step", "length"), [(1, 6), (2, 3), (4, 1), (7, 1), (None, 6)])
def test_length_is_the_number_of_steps_that_a_pass_is_enough_for(jobs_per_step: int | None, length: int) -> None:
    loader = step_loader(LOADERS["shuffled"](), jobs_per_step)
    assert len(loader) == length == len(list(loader))


def test_length_of_endless_data_is_not_known() -> None:
    with pytest.raises(TypeError, match="not known"):
        len(step_loader(LOADERS["infinite"]()))


@pytest.mark.parametrize("num_workers", [0, 2])
def test_global_random_states_are_untouched(num_workers: int) -> None:
    torch.manual_seed(0), np.random.seed(0), random.seed(0)
    np.random.randn(), random.gauss(0.0, 1.0)
    torch_state, numpy_state, python_state = torch.get_rng_state(), np.random.get_state(), random.getstate()
    play(step_loader(LOADERS["lazy numpy"](num_workers=num_workers), 2), 8)
    assert torch.equal(torch.get_rng_state(), torch_state)
    assert random.getstate() == python_state
    assert np.array_equal(np.random.get_state()[1], numpy_state[1])
    assert np.random.get_state()[2:] == numpy_state[2:]


def test_samples_depend_on_the_seed() -> None:
    one, other = (as_lists(play(step_loader(LOADERS["in order"](), seed=seed), 3)) for seed in (0, 1))
    assert one != other
    assert [row[0] for row in one[0]] == [row[0] for row in other[0]]


def test_a_sample_is_augmented_anew_in_every_pass() -> None:
    items = play(step_loader(LOADERS["one mini-batch"](), 1), 2)
    one, other = (item[item[:, 0].argsort()] for item in items)
    assert (one[:, 0] == other[:, 0]).all()
    assert (one[:, 1:] != other[:, 1:]).all()


@pytest.mark.parametrize("jobs_per_step", [1, 2])
def test_limited_epochs_are_passes_of_that_many_steps(jobs_per_step: int) -> None:
    whole = step_loader(LOADERS["shuffled"](), jobs_per_step)
    limited = step_loader(LOADERS["shuffled"](), jobs_per_step, max_steps_per_epoch=2)
    first = as_lists(play(limited, 2))
    assert first == as_lists(play(whole, 2))
    second = indices(play(limited, 2))
    assert len(set(second)) == 2 * jobs_per_step * 4  # a new pass, of other samples
    assert limited.positions == {-1: (1, 2 * jobs_per_step)}


def test_overfitting_reads_the_same_mini_batches_in_every_epoch() -> None:
    # What Trainer(overfit_batches=2) makes of a loader: no shuffling, and two batches an epoch.
    loader = step_loader(LOADERS["in order"](), max_steps_per_epoch=2)
    assert indices(play(loader, 6, leave_after=(2, 4))) == [*range(8)] * 3


def test_reading_continues_in_the_middle_of_a_long_pass_at_once() -> None:
    asked = 0

    class Counting(SequentialSampler):
        def __iter__(self) -> Iterator[int]:
            nonlocal asked
            for asked in range(10**9):
                yield asked % SIZE

        def __len__(self) -> int:
            return 10**9

    loader = step_loader(DataLoader(Noisy(), batch_size=1, sampler=Counting(range(SIZE))))
    loader.seek(1_000, {-1: (0, 1_000)})
    iterator = iter(loader)
    assert asked == 0  # nothing is read before it is asked for
    assert indices(next(iterator)) == [1_000 % SIZE]
    assert asked < 1_000 + 100


def test_attributes_are_those_of_the_users_loader() -> None:
    loader = LOADERS["shuffled"](num_workers=2)
    wrapped = step_loader(loader)
    assert wrapped.dataset is loader.dataset
    assert wrapped.num_workers == 2
    with pytest.raises(AttributeError):
        wrapped.nothing_of_the_kind


def test_lightning_finds_no_sampler_to_set_epochs_of() -> None:
    assert step_loader(LOADERS["shuffled"]()).sampler is step_loader(LOADERS["shuffled"]()).batch_sampler is None


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


@pytest.mark.parametrize("num_workers", [0, 2])
def test_reading_ahead_ends_if_no_step_has_a_job_any_more(num_workers: int) -> None:
    def schedule() -> Iterator[Step]:
        yield Step(0, 0.0, (Job(0, 0, 0),))
        for index in count(1):
            yield Step(index, float(index), ())

    loader = step_loader(LOADERS["in order"](num_workers=num_workers), None, schedule=schedule)
    items = play(loader, 30)
    assert [len(item) for item in items] == [1] + [0] * 29
    assert loader.positions == {-1: (0, 1)}


def test_persistent_processes_end_with_the_loader() -> None:
    # In a cycle of references they would be collected in an order in which each is waited for in vain for 5 seconds.
    loader = step_loader(LOADERS["shuffled"](num_workers=2, persistent_workers=True))
    play(loader, 1)
    processes = loader._iterator._workers
    assert all(process.is_alive() for process in processes)
    gc.disable()
    try:
        del loader
        assert not any(process.is_alive() for process in processes)
    finally:
        gc.enable()


def test_lightning_can_shut_persistent_processes_down() -> None:
    loader = step_loader(LOADERS["shuffled"](num_workers=2, persistent_workers=True))
    whole = as_lists(play(step_loader(LOADERS["shuffled"]()), 4))
    first = play(loader, 2)
    _shutdown_workers_and_reset_iterator(loader)
    assert loader._iterator is None
    assert as_lists(first) + as_lists(play(loader, 2)) == whole
