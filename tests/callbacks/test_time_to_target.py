from pathlib import Path
from typing import Any

import pytest
import torch
from lightning.fabric.utilities.exceptions import MisconfigurationException
from lightning.pytorch import Callback, Trainer

from lightning_async.callbacks import TimeToTarget, ValidateEvery
from lightning_async.methods import ASGD
from lightning_async.simulation import FixedTimes
from tests.callbacks.training import Memory, Regression, SaveAt, step_times, trainer_of

TIMES = FixedTimes([1.0, 2.5, 3.3])
# Value after step 1, 2, ...: goes up with a lonely peak at the third step.
VALUES = [0.1, 0.3, 0.8, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.9]


class Prescribed(Regression):
    """Its metric after step k is the k-th value above."""

    def validation_step(self, batch: Any, batch_idx: int) -> None:
        super().validation_step(batch, batch_idx)
        self.log("val/acc", VALUES[min(self.trainer.global_step, len(VALUES)) - 1])


def run(*callbacks: Callback, ckpt_path: Path | None = None, **kwargs: Any) -> Trainer:
    trainer = trainer_of(*callbacks, times=TIMES, **{"max_steps": len(VALUES), **kwargs})
    trainer.fit(Prescribed(), ckpt_path=ckpt_path)
    return trainer


def time_of_step(number: int) -> float:
    return step_times(ASGD(), TIMES, number)[-1]


@pytest.mark.parametrize(
    ("value", "window", "step"),
    [
        (0.3, 1, 2),  # at the target
        (0.35, 1, 3),
        (0.8, 1, 3),
        (0.85, 1, 9),
        (0.5, 3, 3 + 1),  # 0.3, 0.8, 0.4
        (0.65, 3, 8),  # 0.6, 0.7, 0.8; and not the peak
        (0.1, 4, 4),  # never before there are four validations
        (0.95, 1, None),
    ],
)
def test_first_time_at_which_the_mean_of_the_window_reaches_the_target(
    value: float, window: int, step: int | None
) -> None:
    target = TimeToTarget("val/acc", value, mode="max", window=window)
    run(target)
    assert target.time == (None if step is None else time_of_step(step))


def test_in_mode_min_smaller_is_better() -> None:
    reached, missed = TimeToTarget("val/acc", 0.1, mode="min"), TimeToTarget("val/acc", 0.05, mode="min")
    run(reached, missed)
    assert (reached.time, missed.time) == (time_of_step(1), None)


def test_training_goes_on_unless_told_to_stop() -> None:
    assert run(TimeToTarget("val/acc", 0.79, mode="max")).global_step == len(VALUES)
    assert run(TimeToTarget("val/acc", 0.79, mode="max", stop=True)).global_step == 3


def test_time_is_logged_once_beside_logical_time() -> None:
    logger = Memory()
    run(TimeToTarget("val/acc", 0.79, mode="max"), logger=logger)
    assert logger.with_key("time_to_target/val/acc") == [
        {"time_to_target/val/acc": time_of_step(3), "logical_time": time_of_step(3)}
    ]


def test_several_targets_for_a_metric_are_told_apart() -> None:
    logger = Memory()
    targets = [TimeToTarget("val/acc", value, mode="max") for value in (0.25, 0.79)]
    run(*targets, logger=logger)
    assert [target.time for target in targets] == [time_of_step(2), time_of_step(3)]
    (low,) = logger.with_key("time_to_target/val/acc/0.25")
    (high,) = logger.with_key("time_to_target/val/acc/0.79")
    assert (low["logical_time"], high["logical_time"]) == (time_of_step(2), time_of_step(3))


def test_the_time_is_that_of_the_validated_iterate_and_not_of_the_grid() -> None:
    target = TimeToTarget("val/acc", 0.25, mode="max")
    run(target, ValidateEvery(2.2))
    assert target.time == 2.0  # the last step before 2.2


def test_sanity_checking_and_validating_alone_do_not_count() -> None:
    target = TimeToTarget("val/acc", 0.0, mode="max")
    trainer_of(target, times=TIMES).validate(Prescribed(), verbose=False)
    assert target.time is None
    run(target, num_sanity_val_steps=2)
    assert target.time == time_of_step(1)


@pytest.mark.parametrize("stop", [False, True])
def test_a_resumed_run_finds_the_same_time(tmp_path: Path, stop: bool) -> None:
    def targets() -> list[TimeToTarget]:
        return [
            TimeToTarget("val/acc", 0.65, mode="max", window=3, stop=stop),
            TimeToTarget("val/acc", 0.35, mode="max"),
        ]

    save, whole = SaveAt(tmp_path), targets()
    end = run(*whole, save).global_step
    for step in range(1, end + 1):
        resumed = targets()
        trainer = run(*resumed, ckpt_path=save.after_validation(step))
        assert trainer.global_step == end
        assert [target.time for target in resumed] == [target.time for target in whole]


def test_fitting_anew_forgets_the_last_run() -> None:
    target = TimeToTarget("val/acc", 0.35, mode="max", window=2)
    run(target)
    run(target, max_steps=2)
    assert target.time is None


def test_state_loads_with_weights_only(tmp_path: Path) -> None:
    target, save = TimeToTarget("val/acc", 0.35, mode="max"), SaveAt(tmp_path)
    run(target, save)
    state = torch.load(save.after_validation(4), weights_only=True)["callbacks"][target.state_key]
    assert state["time"] == time_of_step(3)


def test_a_metric_that_is_not_logged_is_an_error_that_lists_what_is() -> None:
    with pytest.raises(MisconfigurationException, match=r"'val/accuracy'.*logged were: .*val/acc, val/loss"):
        run(TimeToTarget("val/accuracy", 0.5, mode="max"))


def test_a_run_without_validation_is_told_that_the_target_is_out_of_reach() -> None:
    with pytest.warns(UserWarning, match="will never see its metric"):
        run(TimeToTarget("val/acc", 0.5, mode="max"), limit_val_batches=0, max_steps=1)


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"value": float("nan")}, "value must be a number"),
        ({"mode": "maximum"}, "mode must be one of 'max', 'min'"),
        ({"window": 0}, "window must be at least 1"),
        ({"metric": ""}, "metric must be the name"),
    ],
)
def test_arguments_that_make_no_target_are_refused(kwargs: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        TimeToTarget(**{"metric": "val/acc", "value": 0.5, "mode": "max", **kwargs})


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"value": "0.5"}, "value must be a number, got '0.5'"),
        ({"value": True}, "value must be a number, got True"),
        ({"mode": None}, "mode must be one of 'max', 'min', got None"),
        ({"window": 1.5}, "window must be an integer of at least 1, got 1.5"),
        ({"metric": None}, "metric must be the name"),
    ],
)
def test_arguments_of_the_wrong_kind_are_refused(kwargs: dict[str, Any], message: str) -> None:
    with pytest.raises(TypeError, match=message):
        TimeToTarget(**{"metric": "val/acc", "value": 0.5, "mode": "max", **kwargs})


class FromZero(Prescribed):
    def validation_step(self, batch: Any, batch_idx: int) -> None:
        Regression.validation_step(self, batch, batch_idx)
        step = self.trainer.global_step
        self.log("val/acc", VALUES[min(step, len(VALUES)) - 1] if step else 0.0)


def read_off(every: float, step_time: float) -> list[tuple[float, float]]:
    """The metric at every multiple of a clock, and when it is first known; steps come at multiples of `step_time`."""
    read, before = [], -1
    for multiple in range(1, 100):
        steps = int(multiple * every // step_time)
        value = VALUES[min(steps, len(VALUES)) - 1] if steps else 0.0
        read.append((value, multiple * every if steps == before else steps * step_time))
        before = steps
    return read


@pytest.mark.parametrize(("value", "window"), [(0.55, 2), (0.55, 3), (0.65, 5), (0.3, 4), (0.85, 3), (0.1, 6)])
@pytest.mark.parametrize("every", [0.5, 0.75, 1.0, 2.0, 2.5, 3.0])
def test_an_iterate_counts_at_every_multiple_at_which_it_is_current(value: float, window: int, every: float) -> None:
    read = read_off(every, 2.5)
    means = [sum(v for v, _ in read[k + 1 - window : k + 1]) / window for k in range(window - 1, len(read))]
    expected = next(time for mean, (_, time) in zip(means, read[window - 1 :], strict=True) if mean >= value - 1e-6)
    target = TimeToTarget("val/acc", value, mode="max", window=window)
    trainer_of(ValidateEvery(every), target, times=FixedTimes([2.5]), max_steps=20).fit(FromZero())
    assert target.time == expected
