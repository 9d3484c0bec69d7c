"""What the steps of a run read from the user's loader."""

import random
from collections.abc import Iterator
from itertools import count, islice

import numpy as np
import pytest
import torch
from torch.utils.data import (
    DataLoader,
    SequentialSampler,
)

from lightning_async.simulation import Job, Step
from tests.data.step_loaders import (
    EVERY_COUNT,
    EVERY_LOADER,
    JOBS,
    LOADERS,
    SIZE,
    VARYING,
    Noisy,
    as_lists,
    indices,
    play,
    step_loader,
)


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
