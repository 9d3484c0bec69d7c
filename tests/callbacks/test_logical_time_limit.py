from pathlib import Path
from typing import Any

import pytest

from lightning_async.callbacks import LogicalTimeLimit
from lightning_async.methods import ASGD, Method, MinibatchSGD, RennalaSGD, RingmasterASGD
from lightning_async.simulation import FixedTimes
from tests.callbacks.training import Regression, SaveAt, step_times, trainer_of

TIMES = FixedTimes([1.0, 2.5, 3.3])


def steps_within(limit: float, method: Method | None = None) -> int:
    return sum(time <= limit for time in step_times(method or ASGD(), TIMES, 200))


@pytest.mark.parametrize(
    "method", [ASGD(), MinibatchSGD(), RingmasterASGD(threshold=2)], ids=lambda m: type(m).__name__
)
@pytest.mark.parametrize("limit", [3.0, 3.3, 9.9, 12.34])  # some of them are times of steps
def test_every_step_up_to_the_limit_is_made_and_no_other(method: Method, limit: float) -> None:
    trainer = trainer_of(LogicalTimeLimit(limit), method=method, times=TIMES, max_steps=-1)
    trainer.fit(Regression())
    assert trainer.global_step == steps_within(limit, method)
    assert trainer.strategy.logical_time <= limit < trainer.strategy.next_time


def test_a_step_at_the_limit_is_made() -> None:
    trainer = trainer_of(LogicalTimeLimit(2.5), times=TIMES, max_steps=-1)
    trainer.fit(Regression())
    assert trainer.strategy.logical_time == 2.5


def test_no_step_is_made_if_the_first_is_too_late() -> None:
    module = Regression()
    weights = [p.clone() for p in module.parameters()]
    trainer = trainer_of(LogicalTimeLimit(0.5), times=TIMES, max_steps=-1)
    trainer.fit(module)
    assert trainer.global_step == 0
    assert all(bool((p == q).all()) for p, q in zip(weights, module.parameters(), strict=True))


def test_another_limit_that_comes_first_ends_the_run() -> None:
    trainer = trainer_of(LogicalTimeLimit(100.0), times=TIMES, max_steps=4)
    trainer.fit(Regression())
    assert trainer.global_step == 4


def test_a_resumed_run_ends_where_the_uninterrupted_one_does(tmp_path: Path) -> None:
    save = SaveAt(tmp_path)
    whole = trainer_of(LogicalTimeLimit(7.0), save, times=TIMES, max_steps=-1)
    whole.fit(Regression())
    for step in range(1, whole.global_step + 1):  # at the last, there is nothing left to do
        resumed = trainer_of(LogicalTimeLimit(7.0), times=TIMES, max_steps=-1)
        resumed.fit(Regression(), ckpt_path=save.after_step(step))
        assert resumed.global_step == whole.global_step


def test_a_run_can_go_on_with_a_later_limit(tmp_path: Path) -> None:
    save = SaveAt(tmp_path)
    trainer_of(LogicalTimeLimit(4.0), save, times=TIMES, max_steps=-1).fit(Regression())
    trainer = trainer_of(LogicalTimeLimit(8.0), times=TIMES, max_steps=-1)
    trainer.fit(Regression(), ckpt_path=save.after_step(steps_within(4.0)))
    assert trainer.global_step == steps_within(8.0)


def test_the_last_iterate_within_the_limit_is_validated() -> None:
    module = Regression()
    trainer_of(LogicalTimeLimit(7.0), times=TIMES, max_steps=-1, val_check_interval=1000).fit(module)
    assert [step for step, _, _ in module.validations] == [steps_within(7.0)]


@pytest.mark.parametrize("time", [0.0, -1.0, float("nan"), "3", None, True])
def test_limits_that_are_not_positive_numbers_are_refused(time: Any) -> None:
    error = ValueError if isinstance(time, float) else TypeError
    with pytest.raises(error, match="time must be a number above 0"):
        LogicalTimeLimit(time)


def test_a_step_that_is_never_complete_ends_the_run() -> None:
    trainer = trainer_of(LogicalTimeLimit(5.0), method=RennalaSGD(10**9), times=TIMES, max_steps=-1)
    trainer.fit(Regression())
    assert trainer.global_step == 0


def test_the_end_is_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    monkeypatch.setattr("lightning_async.callbacks.strategy.rank_zero_info", told.append)
    trainer_of(LogicalTimeLimit(3.0), times=TIMES, max_steps=-1).fit(Regression())
    assert told == ["`Trainer.fit` stopped: `LogicalTimeLimit(3)` reached."]
    trainer_of(LogicalTimeLimit(3.0), times=TIMES, max_steps=2).fit(Regression())
    assert len(told) == 1
