"""The Euclidean norm of a gradient over all parameters together, and whether all of its entries are finite."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from lightning_async.methods.base import Gradient
from lightning_async.methods.one_kernel import OneKernel

_SINGLE, _DOUBLE = torch.float32, torch.float64
_TINY = 1e-30  # squares of single precision below it have lost digits


def global_norm(gradient: Gradient) -> float:
    """Euclidean norm over all tensors together; it is finite if, and only if, all entries are.

    A norm beyond the range of floats is returned as the largest float.

    Args:
        gradient: tensors, of any floating-point precision, sparse or empty; None counts as zero.
    """
    return norm_for([t for t in gradient if t is not None])(gradient)


def norm_for(parameters: Sequence[Tensor]) -> Callable[[Gradient], float]:
    """`global_norm` for gradients of these parameters, whose device and dtype need not be looked at every time."""
    if not all(p.is_cpu for p in parameters):
        square = _square_on_device
    elif all(p.dtype in (_SINGLE, _DOUBLE) for p in parameters):
        square = _square_by_dots
    else:
        square = _square_by_norms

    def norm(gradient: Gradient) -> float:
        try:
            squared = square(gradient)
        except (NotImplementedError, RuntimeError):  # a sparse one, or several devices
            squared = math.inf
        return math.sqrt(squared) if _TINY < squared < math.inf else _careful_norm(gradient)

    return norm


def finite_check_for(parameters: Sequence[Tensor], *, owned: bool) -> Callable[[Gradient], bool]:
    """Tells of gradients of these parameters whether no entry is NaN or infinite, at little cost after every job.

    Args:
        parameters: the parameters.
        owned: whether gradients may be written to; that does not change them.
    """
    norm = norm_for(parameters)

    def by_norm(gradient: Gradient) -> bool:
        return norm(gradient) < math.inf

    if not owned or not OneKernel.suits(parameters):
        return by_norm
    kernel = OneKernel()

    def at_once(gradient: Gradient) -> bool:
        try:
            return kernel.is_finite(gradient)
        except (NotImplementedError, RuntimeError):  # a sparse one, or one that cannot be written to
            return by_norm(gradient)

    return at_once


def device_norm(gradient: Gradient) -> Tensor:
    """The norm as a tensor on the device of the gradient, in single precision at least; nothing waits for it.

    Args:
        gradient: dense tensors; None counts as zero.
    """
    norm: Tensor = torch.linalg.vector_norm(torch.stack([_norm(t) for t in gradient if t is not None]))
    return norm


def _norm(tensor: Tensor) -> Tensor:
    norm: Tensor = torch.linalg.vector_norm(tensor, dtype=torch.promote_types(tensor.dtype, _SINGLE))
    return norm


def _square_on_device(gradient: Gradient) -> float:
    square: float = device_norm(gradient).item() ** 2
    return square


# On the CPU numbers are fetched one by one: a kernel that collects them takes longer than that.


def _square_by_dots(gradient: Gradient) -> float:
    square = 0.0
    for t in gradient:
        if t is not None:
            if t.ndim != 1:
                t = t.view(-1) if t.is_contiguous() else t.reshape(-1)
            square += torch.dot(t, t).item()
    return square


def _square_by_norms(gradient: Gradient) -> float:
    """For half precision too, in which a dot product overflows."""
    return sum(_norm(t).item() ** 2 for t in gradient if t is not None)


def _careful_norm(gradient: Gradient) -> float:
    """The norm where the quick way overflows or underflows, or cannot go."""
    values = [(t.coalesce().values() if t.is_sparse else t).detach() for t in gradient if t is not None]
    values = [t.double() for t in values if t.numel()]
    if not values:
        return 0.0
    largest = float(torch.stack([t.abs().max().cpu() for t in values]).max().item())
    if not 0.0 < largest < math.inf:
        return largest
    norm = largest * math.hypot(*(torch.linalg.vector_norm(t / largest).item() for t in values))
    return min(norm, sys.float_info.max)
