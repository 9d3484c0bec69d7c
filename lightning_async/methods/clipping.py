"""clip_c(g) = min(1, c / ||g||) g, with the norm over all parameters together."""

from __future__ import annotations

import torch

from lightning_async.methods.base import Gradient
from lightning_async.methods.gradient_norm import global_norm


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


def scale(gradient: Gradient, factor: float, *, in_place: bool) -> Gradient:
    """Multiply every entry of a gradient, in place or into new tensors."""
    tensors = [g for g in gradient if g is not None]
    if in_place:
        torch._foreach_mul_(tensors, factor)
        return gradient
    scaled = iter(torch._foreach_mul(tensors, factor))
    return [None if g is None else next(scaled) for g in gradient]
