import math
from pathlib import Path
from typing import Any

import pytest
import torch
from lightning.fabric.utilities.exceptions import MisconfigurationException
from lightning.pytorch import Callback, Trainer
from lightning.pytorch.callbacks import EMAWeightAveraging, OnExceptionCheckpoint

from lightning_async.callbacks import LogicalTimeLimit, ValidateEvery
from lightning_async.methods import ASGD, Method, MinibatchSGD, RennalaSGD, RingmasterASGD
from lightning_async.simulation import FixedTimes, WorkerTimes
from tests.callbacks.training import Regression, SaveAt, step_times, trainer_of

TIMES = FixedTimes([1.0, 2.5, 3.3])
STEPS = 20


def current_at_multiples(method: Method, times: WorkerTimes, distance: float, steps: int = STEPS) -> list[int]:
    """Index of the iterate at t, 2t, 3t, ... as far as it is known after `steps` steps, repetitions left out.

    Written from the definition: the iterate at time t is the one after the last step of time <= t.
    """
    made = step_times(method, times, steps + 1)
    expected: list[int] = []
    multiple = 1
    while multiple * distance < made[-1]:
        index = sum(time <= multiple * distance for time in made)
        if index not in expected:
            expected.append(index)
        multiple += 1
    return expected


def every_validation(method: Method, times: WorkerTimes, *callbacks: Callback) -> dict[int, Any]:
    """What an independent run, validated at the start and after every single step, finds at each iterate."""
    module = Regression()
    trainer_of(method=method, times=times).validate(module, verbose=False)
    trainer_of(*callbacks, method=method, times=times, max_steps=STEPS).fit(module)
    return {step: (step, weights, loss) for step, weights, loss in module.validations}


GRIDS = pytest.mark.parametrize(
    ("method", "distance"),
    [
        (ASGD(), 0.3),  # much finer than the steps
        (ASGD(), 1.0),  # steps fall on the multiples
        (ASGD(), 2.7),
        (ASGD(), 9.0),  # much coarser
        (ASGD(), 1000.0),  # no multiple in the run
        (MinibatchSGD(), 2.0),  # the initial iterate is current at 2.0
        (RennalaSGD(batch=4), 1.7),
        (RingmasterASGD(threshold=2), 1.7),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Method) else str(value),
)


@GRIDS
def test_the_iterate_current_at_each_multiple_is_validated_once(method: Method, distance: float) -> None:
    module = Regression()
    trainer_of(ValidateEvery(distance), method=method, times=TIMES).fit(module)
    reference = every_validation(method, TIMES)
    assert module.validations == [reference[index] for index in current_at_multiples(method, TIMES, distance)]


def test_simultaneous_steps_are_followed_by_one_validation() -> None:
    times = FixedTimes([1.0, 1.0, 1.0, 2.0])
    module = Regression()
    trainer_of(ValidateEvery(1.0), times=times).fit(module)
    assert [step for step, _, _ in module.validations] == [3, 7, 10, 14, 17]


@GRIDS
def test_no_extra_validation_for_sanity_checking(method: Method, distance: float) -> None:
    module = Regression()
    trainer_of(ValidateEvery(distance), method=method, times=TIMES, num_sanity_val_steps=2).fit(module)
    assert [step for step, _, _ in module.validations] == current_at_multiples(method, TIMES, distance)


@pytest.mark.parametrize("reload", [0, 1])
@pytest.mark.parametrize("sanity", [0, 2])
@pytest.mark.parametrize("ema", [False, True])
def test_resuming_after_any_step_gives_the_validations_of_the_uninterrupted_run(
    tmp_path: Path, reload: int, sanity: int, ema: bool
) -> None:
    def run(*callbacks: Callback, ckpt_path: Path | None = None) -> Regression:
        module = Regression()
        averaging = [EMAWeightAveraging(decay=0.5)] if ema else []
        trainer = trainer_of(
            ValidateEvery(1.7),
            *averaging,
            *callbacks,
            times=TIMES,
            max_steps=12,
            reload_dataloaders_every_n_epochs=reload,
            num_sanity_val_steps=sanity,
        )
        trainer.fit(module, ckpt_path=ckpt_path)
        return module

    save = SaveAt(tmp_path)
    whole = run(save).validations
    assert [step for step, _, _ in whole] == current_at_multiples(ASGD(), TIMES, 1.7, 12)
    for step in range(1, 13):
        # Killed between the step and its validation, the last one included: the validation is made up for.
        resumed = run(ckpt_path=save.after_step(step)).validations
        assert resumed == [validation for validation in whole if validation[0] >= step], step
    for step in {step for step, _, _ in whole if step}:
        resumed = run(ckpt_path=save.after_validation(step)).validations
        assert resumed == [validation for validation in whole if validation[0] > step], step


def test_resuming_twice_in_a_row(tmp_path: Path) -> None:
    def run(max_steps: int, ckpt_path: Path | None = None) -> tuple[Regression, SaveAt]:
        module, save = Regression(), SaveAt(tmp_path / str(max_steps))
        trainer_of(ValidateEvery(1.7), save, times=TIMES, max_steps=max_steps).fit(module, ckpt_path=ckpt_path)
        return module, save

    whole = run(16)[0].validations
    first, save = run(5)
    second, save = run(11, ckpt_path=save.after_step(5))
    third, _ = run(16, ckpt_path=save.after_step(11))
    joined = first.validations + second.validations + third.validations
    assert [*dict.fromkeys(map(str, joined))] == [*map(str, whole)]


def test_a_checkpoint_of_a_run_without_the_callback_causes_no_validation_off_the_grid(tmp_path: Path) -> None:
    save = SaveAt(tmp_path)
    trainer_of(save, times=TIMES, limit_val_batches=0).fit(Regression())
    for step in range(1, 12):
        module = Regression()
        trainer_of(ValidateEvery(1.7), times=TIMES).fit(module, ckpt_path=save.after_step(step))
        expected = [index for index in current_at_multiples(ASGD(), TIMES, 1.7) if index >= step]
        assert [step for step, _, _ in module.validations] == expected


class FailingInValidation(Callback):
    def __init__(self, step: int) -> None:
        self.step = step

    def on_validation_batch_end(self, trainer: Trainer, *args: Any) -> None:
        if trainer.global_step == self.step:
            raise OSError("the disk is full")


def test_a_validation_that_failed_is_repeated() -> None:
    expected = current_at_multiples(ASGD(), TIMES, 1.7, 12)
    for step in expected:  # one of them is the last of its epoch
        save = OnExceptionCheckpoint(".", f"failed-{step}")
        with pytest.raises(OSError, match="disk"):
            trainer_of(ValidateEvery(1.7), FailingInValidation(step), save, times=TIMES, enable_checkpointing=True).fit(
                Regression()
            )
        module = Regression()
        trainer_of(ValidateEvery(1.7), times=TIMES, max_steps=12).fit(module, ckpt_path=f"failed-{step}.ckpt")
        assert [index for index, _, _ in module.validations] == [index for index in expected if index >= step]


def test_averaged_weights_are_validated() -> None:
    module = Regression()
    trainer_of(ValidateEvery(1.7), EMAWeightAveraging(decay=0.5), times=TIMES).fit(module)
    averaged = every_validation(ASGD(), TIMES, EMAWeightAveraging(decay=0.5))
    assert module.validations == [averaged[index] for index in current_at_multiples(ASGD(), TIMES, 1.7)]


def test_validation_changes_nothing_in_training() -> None:
    weights = []
    for callbacks in ([ValidateEvery(0.7)], [ValidateEvery(5.0)]):
        module = Regression()
        trainer_of(*callbacks, times=TIMES).fit(module)
        weights.append(torch.nn.utils.parameters_to_vector(module.parameters()))
    assert torch.equal(*weights)


def test_a_run_that_is_told_to_stop_is_validated_once_where_it_stops() -> None:
    module = Regression()
    limit = 7.9
    trainer_of(ValidateEvery(1.7), LogicalTimeLimit(limit), times=TIMES, max_steps=-1).fit(module)
    last = sum(time <= limit for time in step_times(ASGD(), TIMES, 50))
    on_the_grid = [index for index in current_at_multiples(ASGD(), TIMES, 1.7) if index <= last]
    assert [step for step, _, _ in module.validations] == [*dict.fromkeys([*on_the_grid, last])]


def test_fitting_anew_starts_a_new_grid() -> None:
    callback = ValidateEvery(1.7)
    counts = []
    for _ in range(2):
        module = Regression()
        trainer_of(callback, times=TIMES).fit(module)
        counts.append([step for step, _, _ in module.validations])
    assert counts[0] == counts[1]


def test_fitting_on_continues_the_grid() -> None:
    module = Regression()
    trainer = trainer_of(ValidateEvery(1.7), times=TIMES, max_steps=9)
    trainer.fit(module)
    trainer.fit_loop.epoch_loop.max_steps = STEPS
    trainer.fit(module)
    assert [step for step, _, _ in module.validations] == current_at_multiples(ASGD(), TIMES, 1.7)


def test_state_loads_with_weights_only(tmp_path: Path) -> None:
    save = SaveAt(tmp_path)
    trainer_of(ValidateEvery(1.7), save, times=TIMES, max_steps=3).fit(Regression())
    callbacks = torch.load(save.after_step(3), weights_only=True)["callbacks"]
    assert callbacks["ValidateEvery"]["passed"] >= 0


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"check_val_every_n_epoch": 1, "val_check_interval": 1.0}, "ties validation to epochs"),
        ({"val_check_interval": "00:00:10:00"}, "ties validation to real time"),
    ],
)
def test_other_ways_to_decide_are_refused_with_the_remedy(kwargs: dict[str, Any], message: str) -> None:
    trainer = trainer_of(ValidateEvery(1.0), **kwargs)
    with pytest.raises(MisconfigurationException, match=f"{message}.*check_val_every_n_epoch=None"):
        trainer.fit(Regression())


@pytest.mark.parametrize("distance", [0.0, -1.0, math.nan, math.inf, "2", True])
def test_distances_that_make_no_grid_are_refused(distance: Any) -> None:
    error = ValueError if isinstance(distance, float) else TypeError
    with pytest.raises(error, match="logical_time must be"):
        ValidateEvery(distance)


def test_nothing_to_validate_is_said() -> None:
    with pytest.warns(UserWarning, match="has nothing to validate"):
        trainer_of(ValidateEvery(1.0), limit_val_batches=0, max_steps=2).fit(Regression())
