"""What the strategy for replicas refuses before training starts, each with its remedy."""

from __future__ import annotations

from collections.abc import Sequence

from lightning.fabric.utilities.exceptions import MisconfigurationException
from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.callbacks import (
    BaseFinetuning,
    GradientAccumulationScheduler,
    StochasticWeightAveraging,
    WeightAveraging,
)
from torch import Tensor
from torch.optim import Optimizer

from lightning_async.methods.local_training import LocalTraining
from lightning_async.methods.replica_method import ReplicaMethod
from lightning_async.strategies.checks import check_module, check_one_node

_GROWING = (
    "{what} parameters of the optimizer during training, of which there are no replicas. Train in two fits: the first "
    "with that part frozen, the second from its weights with an optimizer for all parameters."
)


def check_replica_trainer(trainer: Trainer, module: LightningModule, method: ReplicaMethod) -> None:
    """Refuse what cannot be combined with replicas, before anything is built.

    Raises:
        MisconfigurationException: with what was asked for, and what to do instead.
    """
    name = type(method).__name__
    check_module(module, name)
    check_one_node(trainer)
    if trainer.accumulate_grad_batches > 1:
        raise MisconfigurationException(_accumulation(name, trainer.accumulate_grad_batches))
    callbacks: list[Callback] = trainer.callbacks  # type: ignore[attr-defined]
    for callback in callbacks:
        if isinstance(callback, (StochasticWeightAveraging, WeightAveraging)):
            raise MisconfigurationException(
                f"the {type(callback).__name__} callback averages what the module holds after each batch, which under "
                f"{name} is one replica after the other. Remove it: the model that is validated and saved is already "
                f"the average of all replicas."
            )
        if isinstance(callback, GradientAccumulationScheduler) and callback.going_to_accumulate_grad_batches():
            raise MisconfigurationException(_accumulation(name, max(callback.scheduling.values())))
        if isinstance(callback, BaseFinetuning):
            raise MisconfigurationException(_GROWING.format(what=f"the {type(callback).__name__} callback adds"))


def check_replica_parameters(optimizer: Optimizer, local: LocalTraining) -> None:
    """Refuse an optimizer that has been given further parameters since the run began.

    Raises:
        MisconfigurationException: if the number of its parameters has changed.
    """
    if sum(len(group["params"]) for group in optimizer.param_groups) != local.replicas.num_optimized:
        raise MisconfigurationException(_GROWING.format(what="the module has added or removed"))


def check_registered(optimizer: Optimizer, module: LightningModule) -> None:
    """Refuse an optimizer of trainable tensors that are no parameters of the module.

    Raises:
        MisconfigurationException: with the shape of the first of them.
    """
    own = set(map(id, module.parameters()))
    for group in optimizer.param_groups:
        for p in group["params"]:
            if p.requires_grad and id(p) not in own:
                raise MisconfigurationException(
                    f"{type(optimizer).__name__} trains a tensor of shape {tuple(p.shape)} that is no parameter of "
                    f"{type(module).__name__}, of which there are no replicas. Make it an attribute of the module, as "
                    f"an nn.Parameter or in an nn.Module, nn.ParameterList or nn.ModuleList, before the fit."
                )


def check_still_frozen(shared: Sequence[Tensor], module: LightningModule) -> None:
    """Refuse gradients of the optimizer's parameters that were frozen when the run began.

    Args:
        shared: parameters without replicas.
        module: their owner.

    Raises:
        MisconfigurationException: with the name of the first that has a gradient.
    """
    for p in shared:
        if p.grad is not None:
            name = next((name for name, parameter in module.named_parameters() if parameter is p), "a tensor")
            raise MisconfigurationException(_GROWING.format(what=f"{name} has been unfrozen, and joins the"))


def _accumulation(name: str, number: int) -> str:
    return (
        f"gradients cannot be accumulated over {number} batches with {name}: one batch is one local step of one "
        f"replica. Use accumulate_grad_batches=1 and {number} times the batch size, or a longer compute_window to "
        f"communicate less often."
    )
