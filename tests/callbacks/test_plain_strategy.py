import pytest
from lightning.fabric.utilities.exceptions import MisconfigurationException
from lightning.pytorch import Callback

from lightning_async.callbacks import LogicalTimeLimit, LogicalTimeMonitor, TimeToTarget, ValidateEvery
from tests.callbacks.training import Regression, trainer_of

CALLBACKS = [
    LogicalTimeLimit(1.0),
    LogicalTimeMonitor(),
    TimeToTarget("val/loss", 0.1, mode="min"),
    ValidateEvery(1.0),
]


@pytest.mark.parametrize("callback", CALLBACKS, ids=lambda callback: type(callback).__name__)
def test_a_strategy_without_a_logical_clock_is_refused_with_the_remedy(callback: Callback) -> None:
    trainer = trainer_of(callback, strategy="auto")
    with pytest.raises(MisconfigurationException, match=r"SingleDeviceStrategy.*strategy=\"clipped_asgd\""):
        trainer.fit(Regression())


@pytest.mark.parametrize("callback", CALLBACKS, ids=lambda callback: type(callback).__name__)
def test_validating_alone_needs_no_clock(callback: Callback) -> None:
    trainer_of(callback, strategy="auto").validate(Regression(), verbose=False)
