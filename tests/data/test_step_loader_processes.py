"""What the steps of a run read through loading processes."""

import gc
from typing import Any

import pytest
from lightning.pytorch.utilities.combined_loader import _shutdown_workers_and_reset_iterator

from lightning_async.data.step_loader import StepLoader
from tests.data.step_loaders import EVERY_LOADER, FIXED_AND_VARYING, JOBS, LOADERS, as_lists, play, step_loader


@EVERY_LOADER
@FIXED_AND_VARYING
def test_loading_processes_change_nothing(name: str, jobs: str) -> None:
    alone = play(step_loader(LOADERS[name](), JOBS[jobs]), 9)
    helped = play(step_loader(LOADERS[name](num_workers=2), JOBS[jobs]), 9)
    assert as_lists(alone) == as_lists(helped)


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


def test_persistent_processes_end_with_the_loader() -> None:
    # In a cycle of references they would be collected in an order in which each is waited for in vain for 5 seconds.
    loader = step_loader(LOADERS["shuffled"](num_workers=2, persistent_workers=True))
    play(loader, 1)
    processes = loader._iterator._workers
    assert all(process.is_alive() for process in processes)
    gc.disable()
    try:
        del loader
        for process in processes:
            process.join(timeout=30)  # they were told to end, and take their time on a busy machine
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
