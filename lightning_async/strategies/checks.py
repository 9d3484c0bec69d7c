"""What a strategy refuses before training starts, each with its remedy."""

from __future__ import annotations

import torch
from lightning.fabric.utilities.exceptions import MisconfigurationException
from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.callbacks import StochasticWeightAveraging
from torch.optim import LBFGS, Optimizer

from lightning_async._compat import takes_dataloader_iter
from lightning_async.methods import Method


def check_trainer(trainer: Trainer, module: LightningModule, method: Method) -> None:
    """Refuse what cannot be combined with a simulated cluster, before anything is built.

    Raises:
        MisconfigurationException: with what was asked for, and what to do instead.
    """
    name = type(method).__name__
    if not module.automatic_optimization:
        raise MisconfigurationException(
            f"{type(module).__name__} uses manual optimization, so that {name} cannot decide where gradients are "
            f"taken. Set automatic_optimization = True and return the loss from training_step."
        )
    if trainer.accumulate_grad_batches > 1:
        raise MisconfigurationException(
            f"accumulate_grad_batches={trainer.accumulate_grad_batches} cannot be combined with {name}, which decides "
            f"itself how many gradients make a step. Use accumulate_grad_batches=1, and "
            f"RennalaSGD(batch={trainer.accumulate_grad_batches}) to average that many gradients."
        )
    if any(isinstance(callback, StochasticWeightAveraging) for callback in trainer.callbacks):  # type: ignore[attr-defined]
        raise MisconfigurationException(
            "the StochasticWeightAveraging callback exchanges the optimizer's parameters during training. Use "
            "WeightAveraging or EMAWeightAveraging from lightning.pytorch.callbacks."
        )
    if method.clips and trainer.gradient_clip_val:
        raise MisconfigurationException(
            f"Trainer(gradient_clip_val={trainer.gradient_clip_val}) would clip once more what {name} has clipped at "
            f"the workers. Remove gradient_clip_val, and set the radius as {name}(clip={trainer.gradient_clip_val})."
        )
    if takes_dataloader_iter(module):
        raise MisconfigurationException(
            f"{type(module).__name__}.training_step takes dataloader_iter and fetches its batches itself, but the "
            f"schedule decides which batch a job gets. Use training_step(self, batch, batch_idx)."
        )
    sparse = [key for key, child in module.named_modules() if getattr(child, "sparse", False) is True]
    if sparse and not method.supports_sparse:
        raise MisconfigurationException(
            f"{name} cannot take sparse gradients, but {', '.join(sparse)} of {type(module).__name__} makes them. Set "
            f"sparse=False there."
        )


def check_optimizer(optimizer: Optimizer, method: Method, scaler: torch.amp.GradScaler | None) -> None:
    """Refuse optimizers and precisions that the method cannot be combined with.

    Raises:
        MisconfigurationException: with what was asked for, and what to do instead.
    """
    if isinstance(optimizer, LBFGS):
        raise MisconfigurationException(
            "LBFGS evaluates the loss several times in one step, but a job is evaluated once. Use a first-order "
            "optimizer, in configure_optimizers or as the strategy's optimizer argument."
        )
    if scaler is not None and (method.averages or method.jobs_per_step(2) != 1):
        raise MisconfigurationException(
            f'precision="16-mixed" scales each gradient, and {type(method).__name__} combines several. Use '
            f'precision="bf16-mixed" or "32-true".'
        )
