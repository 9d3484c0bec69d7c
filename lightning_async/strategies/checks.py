"""What a strategy refuses before training starts, each with its remedy."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from lightning.fabric.utilities.exceptions import MisconfigurationException
from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.callbacks import BaseFinetuning, GradientAccumulationScheduler, StochasticWeightAveraging
from torch.optim import Optimizer

from lightning_async._compat import nodes_asked_for, takes_dataloader_iter
from lightning_async.methods import GradientCoding, Method
from lightning_async.methods.apply import check_first_order, check_momentum

_GROWING = (
    "{what} parameters of the optimizer during training, but past iterates of them are not known. Train in two fits: "
    "the first with that part frozen, the second from its weights with an optimizer for all parameters."
)


def check_trainer(trainer: Trainer, module: LightningModule, method: Method) -> None:
    """Refuse what cannot be combined with a simulated cluster, before anything is built.

    Raises:
        MisconfigurationException: with what was asked for, and what to do instead.
    """
    name = type(method).__name__
    check_module(module, name)
    check_one_node(trainer)
    if trainer.accumulate_grad_batches > 1:
        raise MisconfigurationException(
            f"accumulate_grad_batches={trainer.accumulate_grad_batches} cannot be combined with {name}, which decides "
            f"itself how many gradients make a step. Use accumulate_grad_batches=1, and "
            f"RennalaSGD(batch={trainer.accumulate_grad_batches}) to average that many gradients."
        )
    _check_callbacks(trainer.callbacks, name)  # type: ignore[attr-defined]
    if method.clip is not None and trainer.gradient_clip_val:
        raise MisconfigurationException(
            f"Trainer(gradient_clip_val={trainer.gradient_clip_val}) would clip once more what {name} has clipped at "
            f"the workers. Remove gradient_clip_val, and set the radius as {name}(clip={trainer.gradient_clip_val})."
        )
    sparse = [key for key, child in module.named_modules() if getattr(child, "sparse", False) is True]
    if sparse and not method.supports_sparse:
        raise MisconfigurationException(
            f"{name} cannot take sparse gradients, but {', '.join(sparse)} of {type(module).__name__} makes them. Set "
            f"sparse=False there."
        )


def check_module(module: LightningModule, name: str) -> None:
    """Refuse modules that take decisions which belong to the method of that name.

    Raises:
        MisconfigurationException: with what was asked for, and what to do instead.
    """
    if not module.automatic_optimization:
        raise MisconfigurationException(
            f"{type(module).__name__} uses manual optimization, so that {name} cannot decide where gradients are "
            f"taken. Set automatic_optimization = True and return the loss from training_step."
        )
    if takes_dataloader_iter(module):
        raise MisconfigurationException(
            f"{type(module).__name__}.training_step takes dataloader_iter and fetches its batches itself, but the "
            f"schedule decides which batch a job gets. Use training_step(self, batch, batch_idx)."
        )


def check_one_node(trainer: Trainer) -> None:
    """Refuse several machines, of which each would simulate all the workers by itself."""
    nodes = nodes_asked_for(trainer)
    if nodes > 1:
        raise MisconfigurationException(
            f"all workers are simulated on one machine, but the Trainer was given num_nodes={nodes}. Use "
            f"num_nodes=1; the number of workers belongs to the cluster."
        )


def _check_callbacks(callbacks: Iterable[Callback], name: str) -> None:
    for callback in callbacks:
        if isinstance(callback, StochasticWeightAveraging):
            raise MisconfigurationException(
                "the StochasticWeightAveraging callback exchanges the optimizer's parameters during training. Use "
                "WeightAveraging or EMAWeightAveraging from lightning.pytorch.callbacks."
            )
        if isinstance(callback, GradientAccumulationScheduler) and callback.going_to_accumulate_grad_batches():
            most = max(callback.scheduling.values())
            raise MisconfigurationException(
                f"the GradientAccumulationScheduler callback cannot be combined with {name}, which decides itself how "
                f"many gradients make a step. Remove it, and use RennalaSGD(batch={most}) to average {most} gradients."
            )
        if isinstance(callback, BaseFinetuning):
            raise MisconfigurationException(_GROWING.format(what=f"the {type(callback).__name__} callback adds"))


def check_parameters(optimizer: Optimizer, count: int) -> None:
    """Refuse an optimizer that has been given further parameters since the run began.

    Args:
        optimizer: the optimizer.
        count: the number of its parameters when the run began.

    Raises:
        MisconfigurationException: if the number has changed.
    """
    if sum(len(group["params"]) for group in optimizer.param_groups) != count:
        raise MisconfigurationException(_GROWING.format(what="the module has added or removed"))


def check_not_frozen(module: LightningModule) -> None:
    """Refuse a module without trainable parameters.

    Raises:
        MisconfigurationException: with what to do instead.
    """
    if not any(p.requires_grad for p in module.parameters()):
        raise MisconfigurationException(
            f"no parameter of {type(module).__name__} is trainable: all are frozen, or there are none. Set "
            f"requires_grad_(True) on those that are to be trained, before the fit."
        )


def check_optimized(optimizer: Optimizer, module: LightningModule) -> None:
    """Refuse an optimizer that cannot train the module with one gradient a job, whatever the method.

    Raises:
        MisconfigurationException: with what was asked for, and what to do instead.
    """
    try:
        check_first_order(optimizer)
    except ValueError as error:
        raise MisconfigurationException(
            f"{error} Return it from configure_optimizers, or give it as the strategy's optimizer argument."
        ) from None
    check_not_frozen(module)
    own = set(map(id, module.parameters()))
    optimized = [p for group in optimizer.param_groups for p in group["params"]]
    if not any(id(p) in own for p in optimized):
        raise MisconfigurationException(
            f"none of the {len(optimized)} parameters of {type(optimizer).__name__} belongs to "
            f"{type(module).__name__}, so that training would not change it. Build the optimizer from "
            f"self.parameters() in configure_optimizers."
        )
    if not any(p.requires_grad for p in optimized):
        raise MisconfigurationException(
            f"all {len(optimized)} parameters of {type(optimizer).__name__} are frozen. Set requires_grad_(True) on "
            f"those that are to be trained, or give the optimizer the parameters of {type(module).__name__} that are "
            f"trainable."
        )


def check_optimizer(optimizer: Optimizer, method: Method, scaler: torch.amp.GradScaler | None) -> None:
    """Refuse optimizers and precisions that the method cannot be combined with.

    Raises:
        MisconfigurationException: with what was asked for, and what to do instead.
    """
    second = isinstance(method, GradientCoding) and method.second is not None
    if second and not hasattr(optimizer, "set_second_gradient"):
        raise MisconfigurationException(
            f"{method!r} decodes a second estimate for the second moment, but {type(optimizer).__name__} has no "
            f"set_second_gradient. Use lightning_async.optim.TwoTrackAdam, or leave second= out."
        )
    try:
        check_momentum(optimizer, method)
    except ValueError as error:
        raise MisconfigurationException(str(error)) from None
    if scaler is not None and (method.averages or method.local_steps > 1 or method.jobs_per_step(2) != 1):
        raise MisconfigurationException(
            f'precision="16-mixed" scales each gradient, and {type(method).__name__} combines several. Use '
            f'precision="bf16-mixed" or "32-true".'
        )
