"""The strategy that a callback about logical time needs."""

from __future__ import annotations

from lightning.fabric.utilities.exceptions import MisconfigurationException
from lightning.pytorch import Callback, Trainer
from lightning_utilities.core.rank_zero import rank_zero_info

from lightning_async.strategies.scheduled import ScheduledStrategy


def simulated_strategy(trainer: Trainer, callback: Callback) -> ScheduledStrategy:
    """The Trainer's strategy, if it has a logical clock.

    Raises:
        MisconfigurationException: if it has none.
    """
    strategy = trainer.strategy
    if not isinstance(strategy, ScheduledStrategy):
        raise MisconfigurationException(
            f"{type(callback).__name__} reads the logical clock of a simulated cluster, but the Trainer's strategy is "
            f"{type(strategy).__name__}. Use a strategy of lightning_async, for example "
            f'Trainer(strategy="clipped_asgd"), or remove the callback.'
        )
    return strategy


def stop(trainer: Trainer, reached: str) -> None:
    """End training after this batch, and say why as Lightning does."""
    trainer.should_stop = True
    rank_zero_info(f"`Trainer.fit` stopped: `{reached}` reached.")
