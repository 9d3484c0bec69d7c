"""clip_c(g) = min(1, c / ||g||) g, with the norm over all parameters together."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from lightning_async.methods.base import Gradient


def global_norm(tensors: Sequence[Tensor]) -> float:
    """Euclidean norm over all tensors together; it is finite if, and only if, all entries are.

    Tensors may be sparse, empty, and of any floating-point precision.
    """
    try:
        square = _square_on_cpu(tensors) if tensors[0].is_cpu else _square_on_device(tensors)
    except (IndexError, NotImplementedError, RuntimeError):  # none, sparse ones, or on several devices
        square = math.inf
    return math.sqrt(square) if square < math.inf else _careful_norm(tensors)


def all_finite(gradient: Gradient) -> bool:
    """Whether no entry is NaN or infinite."""
    return math.isfinite(global_norm([g for g in gradient if g is not None]))


def clip_by_global_norm(gradient: Gradient, max_norm: float, *, in_place: bool = True) -> Gradient:
    """Scale a gradient to have at most norm `max_norm`.

    A gradient within the norm is left as it is, bit for bit.

    Args:
        gradient: one tensor or None per parameter.
        max_norm: the radius.
        in_place: whether the tensors themselves are scaled; otherwise new ones are made if any have to be.

    Example:
        >>> clip_by_global_norm([torch.tensor([3.0, 4.0])], max_norm=1.0)
        [tensor([0.6000, 0.8000])]
    """
    norm = global_norm([g for g in gradient if g is not None])
    return gradient if norm <= max_norm else scale(gradient, max_norm / norm, in_place=in_place)


def scale(gradient: Gradient, factor: float, *, in_place: bool) -> Gradient:
    """Multiply every entry of a gradient, in place or into new tensors."""
    tensors = [g for g in gradient if g is not None]
    if in_place:
        torch._foreach_mul_(tensors, factor)
        return gradient
    scaled = iter(torch._foreach_mul(tensors, factor))
    return [None if g is None else next(scaled) for g in gradient]


def _square_on_cpu(tensors: Sequence[Tensor]) -> float:
    """Square of the norm. Numbers are fetched one by one, since a kernel that collects them takes longer than that."""
    square = 0.0
    for t in tensors:
        if t.dtype is torch.float32 or t.dtype is torch.float64:
            square += torch.dot(t, t).item() if t.ndim == 1 else torch.linalg.vector_norm(t).item() ** 2
        else:
            square += torch.linalg.vector_norm(t, dtype=torch.float32).item() ** 2
    return square


def _square_on_device(tensors: Sequence[Tensor]) -> float:
    """Square of the norm, with a single wait for the device."""
    norms = [torch.linalg.vector_norm(t, dtype=torch.promote_types(t.dtype, torch.float32)) for t in tensors]
    return float(torch.linalg.vector_norm(torch.stack(norms)).item()) ** 2


def _careful_norm(tensors: Sequence[Tensor]) -> float:
    """The norm where the quick way overflows, or cannot go."""
    values = [(t.coalesce().values() if t.is_sparse else t).detach() for t in tensors]
    values = [t.double() for t in values if t.numel()]
    if not values:
        return 0.0
    largest = float(torch.stack([t.abs().max().cpu() for t in values]).max().item())
    if not 0.0 < largest < math.inf:
        return largest
    return largest * math.hypot(*(torch.linalg.vector_norm(t / largest).item() for t in values))
