"""clip_c(g) = min(1, c / ||g||) g, with the norm over all parameters together."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from lightning_async.methods.base import Gradient

_SINGLE, _DOUBLE = torch.float32, torch.float64


def global_norm(gradient: Gradient) -> float:
    """Euclidean norm over all tensors together; it is finite if, and only if, all entries are.

    A norm beyond the range of floats is returned as the largest float.

    Args:
        gradient: tensors, of any floating-point precision, sparse or empty; None counts as zero.
    """
    # On the CPU numbers are fetched one by one: a kernel that collects them takes longer than that.
    square = 0.0
    try:
        for t in gradient:
            if t is None:
                continue
            if not t.is_cpu:
                square = device_norm(gradient).item() ** 2
                break
            if t.dtype is not _SINGLE and t.dtype is not _DOUBLE:
                square += torch.linalg.vector_norm(t, dtype=_SINGLE).item() ** 2
                continue
            if t.ndim != 1:
                t = t.view(-1) if t.is_contiguous() else t.reshape(-1)
            square += torch.dot(t, t).item()
    except (NotImplementedError, RuntimeError):  # a sparse one, or several devices
        square = math.inf
    return math.sqrt(square) if square < math.inf else _careful_norm(gradient)


def norm_for(parameters: Sequence[Tensor]) -> Callable[[Gradient], float]:
    """`global_norm` for gradients of these parameters, whose device and dtype need not be looked at every time."""
    return _quick_norm if all(p.is_cpu and p.dtype in (_SINGLE, _DOUBLE) for p in parameters) else global_norm


def _quick_norm(gradient: Gradient) -> float:
    square = 0.0
    try:
        for t in gradient:
            if t is not None:
                if t.ndim != 1:
                    t = t.view(-1) if t.is_contiguous() else t.reshape(-1)
                square += torch.dot(t, t).item()
    except (NotImplementedError, RuntimeError):  # a sparse one
        square = math.inf
    return math.sqrt(square) if square < math.inf else _careful_norm(gradient)


def all_finite(gradient: Gradient) -> bool:
    """Whether no entry is NaN or infinite."""
    return math.isfinite(global_norm(gradient))


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


def device_norm(gradient: Gradient) -> Tensor:
    """The norm as a tensor on the device of the gradient, in single precision at least; nothing waits for it.

    Args:
        gradient: dense tensors; None counts as zero.
    """
    norms = [
        torch.linalg.vector_norm(t, dtype=torch.promote_types(t.dtype, _SINGLE)) for t in gradient if t is not None
    ]
    norm: Tensor = torch.linalg.vector_norm(torch.stack(norms))
    return norm


def _careful_norm(gradient: Gradient) -> float:
    """The norm where the quick way overflows, or cannot go."""
    values = [(t.coalesce().values() if t.is_sparse else t).detach() for t in gradient if t is not None]
    values = [t.double() for t in values if t.numel()]
    if not values:
        return 0.0
    largest = float(torch.stack([t.abs().max().cpu() for t in values]).max().item())
    if not 0.0 < largest < math.inf:
        return largest
    norm = largest * math.hypot(*(torch.linalg.vector_norm(t / largest).item() for t in values))
    return min(norm, sys.float_info.max)
