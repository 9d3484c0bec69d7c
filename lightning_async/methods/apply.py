"""One optimizer step along a direction, with what the method says about its size."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import cast

from torch import Tensor
from torch.optim import LBFGS, Optimizer

from lightning_async.methods.base import Direction, Gradient, Method
from lightning_async.simulation import Step


def set_gradients(parameters: Sequence[Tensor], direction: Direction, optimizer: Optimizer) -> None:
    """Put a direction where the optimizer looks for it.

    Raises:
        TypeError: if the direction is a pair and the optimizer has no `set_second_gradient`.
        ValueError: if the direction does not have one entry per parameter.
    """
    # A gradient for two parameters may be a tuple of length two as well.
    if type(direction) is tuple and len(direction) == 2 and isinstance(direction[0], Sequence):
        gradient, second = direction
        if not hasattr(optimizer, "set_second_gradient"):
            raise TypeError(
                f"the method gives two gradients, for the first and the second moment, but {type(optimizer).__name__} "
                f"has no set_second_gradient; use TwoTrackAdam"
            )
        optimizer.set_second_gradient(second)
    else:
        gradient = cast("Gradient", direction)
    if len(gradient) != len(parameters):
        raise ValueError(f"the direction has {len(gradient)} entries for {len(parameters)} parameters")
    for p, g in zip(parameters, gradient):  # noqa: B905  lengths are equal, and this is the hot path
        p.grad = g


def check_first_order(optimizer: Optimizer) -> None:
    """Refuse an optimizer that evaluates the loss several times in one step.

    Raises:
        ValueError: if it is LBFGS.
    """
    if isinstance(optimizer, LBFGS):
        raise ValueError(
            "LBFGS evaluates the loss several times in one step, but a job is evaluated once. Use a first-order "
            "optimizer, such as torch.optim.SGD or Adam."
        )


def check_momentum(optimizer: Optimizer, method: Method) -> None:
    """Refuse an optimizer whose momentum means something else than the method's.

    Raises:
        ValueError: if the method needs a momentum that is an average, and the optimizer's is not.
    """
    if method.needs_averaged_momentum and not getattr(optimizer, "averages_momentum", False):
        raise ValueError(
            f"{type(method).__name__} sets the momentum m <- (1 - alpha) m + alpha g of each step, an average, which "
            f"{type(optimizer).__name__} does not have. Use lightning_async.optim.Muon or lightning_async.optim.LMO "
            f"(an optimizer of your own says so by averages_momentum = True)."
        )


def optimizer_step(optimizer: Optimizer, method: Method, step: Step) -> None:
    """`optimizer.step()` of the size that the method wants for this step."""
    scaled = scaling(optimizer, method, step)
    if scaled is None:
        optimizer.step()
        return
    with scaled:
        optimizer.step()


@contextmanager
def step_scaling(optimizer: Optimizer, multiplier: float, momentum: float | None) -> Iterator[None]:
    """Apply a factor on the step size, and a momentum, for one step, unseen by schedulers.

    Raises:
        ValueError: if the method sets a momentum and the optimizer has none.
    """
    groups = optimizer.param_groups
    if momentum is not None and any("momentum" not in group for group in groups):
        raise ValueError(
            f"the method sets the momentum of each step, but {type(optimizer).__name__} has none; use an optimizer "
            f"whose groups have a momentum"
        )
    kept = [(group, group["lr"], group.get("momentum")) for group in groups]
    try:
        for group, lr, _ in kept:
            group["lr"] = lr * multiplier
            if momentum is not None:
                group["momentum"] = momentum
        yield
    finally:
        for group, lr, old_momentum in kept:
            group["lr"] = lr
            if momentum is not None:
                group["momentum"] = old_momentum


def scaling(optimizer: Optimizer, method: Method, step: Step) -> AbstractContextManager[None] | None:
    """What the method says about the size of this step, around `optimizer.step()`; None if it says nothing."""
    multiplier, momentum = method.lr_multiplier(step), method.momentum(step)
    if multiplier == 1.0 and momentum is None:
        return None
    return step_scaling(optimizer, multiplier, momentum)
