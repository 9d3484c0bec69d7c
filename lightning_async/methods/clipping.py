"""clip_c(g) = min(1, c / ||g||) g, with the norm over all parameters together."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from lightning_async.methods.base import Gradient
from lightning_async.methods.gradient_norm import global_norm, norm_for
from lightning_async.methods.one_kernel import OneKernel


def clip_by_global_norm(
    gradient: Gradient, max_norm: float, *, norm: float | None = None, in_place: bool = True
) -> Gradient:
    """Scale a gradient to have at most norm `max_norm`.

    A gradient within the norm is left as it is, bit for bit.

    Args:
        gradient: one tensor or None per parameter.
        max_norm: the radius.
        norm: the norm, if it is known.
        in_place: whether the tensors themselves are scaled; otherwise new ones are made if any have to be.

    Example:
        >>> clip_by_global_norm([torch.tensor([3.0, 4.0])], max_norm=1.0)
        [tensor([0.6000, 0.8000])]
    """
    norm = global_norm(gradient) if norm is None else norm
    return gradient if norm <= max_norm else scale(gradient, max_norm / norm, in_place=in_place)


def clipping_for(
    parameters: Sequence[Tensor], max_norm: float, *, owned: bool
) -> Callable[[Gradient], Gradient | None]:
    """`clip_by_global_norm` for gradients of these parameters, and None in place of one that is not finite.

    Args:
        parameters: the parameters.
        max_norm: the radius.
        owned: whether gradients are scaled in place; otherwise new ones are made if they have to be.
    """
    norm_of = norm_for(parameters)
    kernel = OneKernel() if owned and OneKernel.suits(parameters) else None

    def clip(gradient: Gradient) -> Gradient | None:
        norm = norm_of(gradient)
        if not norm < math.inf:
            return None
        if kernel is not None and norm > max_norm:
            try:
                kernel.scale(gradient, max_norm / norm)
            except NotImplementedError:  # a sparse one
                pass
            else:
                return gradient
        return clip_by_global_norm(gradient, max_norm, norm=norm, in_place=owned)

    return clip


def scale(gradient: Gradient, factor: float, *, in_place: bool) -> Gradient:
    """Multiply every entry of a gradient, in place or into new tensors."""
    tensors = [g for g in gradient if g is not None]
    if in_place:
        torch._foreach_mul_(tensors, factor)
        return gradient
    scaled = iter(torch._foreach_mul(tensors, factor))
    return [None if g is None else next(scaled) for g in gradient]
