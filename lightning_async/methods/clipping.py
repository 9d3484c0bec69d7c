"""clip_c(g) = min(1, c / ||g||) g, with the norm over all parameters together."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from lightning_async.methods.base import Gradient


def global_norm(tensors: Sequence[Tensor]) -> float:
    """Euclidean norm over all tensors together; finite whenever their entries are."""
    norm = _norm(tensors, torch.float32)
    return norm if math.isfinite(norm) else _norm(tensors, torch.float64)


def clip_by_global_norm(gradient: Gradient, max_norm: float) -> Gradient:
    """Scale a gradient, in place, to have at most norm `max_norm`.

    A gradient within the norm is left as it is, bit for bit.

    Example:
        >>> clip_by_global_norm([torch.tensor([3.0, 4.0])], max_norm=1.0)
        [tensor([0.6000, 0.8000])]
    """
    tensors = [g for g in gradient if g is not None]
    norm = global_norm(tensors) if tensors else 0.0
    if norm > max_norm:
        torch._foreach_mul_(tensors, max_norm / norm)
    return gradient


def _norm(tensors: Sequence[Tensor], dtype: torch.dtype) -> float:
    wide = [t if t.dtype in (dtype, torch.float64) else t.to(dtype) for t in tensors]
    return float(torch.nn.utils.get_total_norm(wide))
