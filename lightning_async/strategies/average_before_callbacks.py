"""What callbacks find when a validation of replicas begins."""

from __future__ import annotations

from lightning.pytorch import Callback, LightningModule, Trainer
from typing_extensions import override


class AverageBeforeCallbacks(Callback):
    """The first of all callbacks: what the others find when a validation begins is the average already.

    Lightning calls a strategy's own hook after those of callbacks and module.
    """

    # Hooks that are no functions are passed over, so that a step takes no longer.
    on_train_batch_start = on_train_batch_end = None  # type: ignore[assignment]
    on_before_zero_grad = on_before_optimizer_step = None  # type: ignore[assignment]
    on_before_backward = on_after_backward = None  # type: ignore[assignment]

    @override
    def on_validation_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        trainer.strategy.on_validation_start()
