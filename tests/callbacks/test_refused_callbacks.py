"""What the callbacks about logical time refuse, and which numbers they take."""

from typing import Any

import numpy as np
import pytest
from lightning.fabric.utilities.exceptions import MisconfigurationException

from lightning_async.callbacks import LogicalTimeLimit, TimeToTarget, ValidateEvery
from tests.callbacks.training import Regression, trainer_of


@pytest.mark.parametrize("least", [{"min_steps": 3}, {"min_epochs": 2}], ids=["steps", "epochs"])
def test_a_limit_that_the_trainer_would_not_keep_to(least: dict[str, int]) -> None:
    (name,) = least
    with pytest.raises(MisconfigurationException, match=rf"{name}=.*LogicalTimeLimit\(7\).*Remove {name}"):
        trainer_of(LogicalTimeLimit(7.0), **least).fit(Regression())


def test_a_grid_whose_multiples_cannot_be_counted() -> None:
    with pytest.raises(MisconfigurationException, match="as coarse as the worker times"):
        trainer_of(ValidateEvery(1e-320)).fit(Regression())


@pytest.mark.parametrize("stop", ["no", 1, None])
def test_a_stop_that_is_not_a_bool(stop: Any) -> None:
    with pytest.raises(TypeError, match="stop must be True or False"):
        TimeToTarget("val/loss", 0.1, "min", stop=stop)


def test_numbers_of_numpy_are_numbers() -> None:
    target = TimeToTarget("val/loss", np.float32(0.5), "min", window=np.int64(3))
    assert target.value == 0.5
    assert target.window == 3


@pytest.mark.parametrize("value", [True, "0.5", float("nan"), None, 1j])
def test_targets_that_are_not_numbers(value: Any) -> None:
    error = ValueError if isinstance(value, float) else TypeError
    with pytest.raises(error, match="value must be a number"):
        TimeToTarget("val/loss", value, "min")
