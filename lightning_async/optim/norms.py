"""The norms of an LMO step: each one's unit ball, linear minimisation oracle and dual."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from lightning_async.optim.newton_schulz import COEFFICIENTS, CoefficientSet, native_dtype, orthogonalize

__all__ = ["NORMS", "Norm", "NormName", "as_matrix", "lmo", "shape_factor"]

NormName = Literal["spectral", "sign", "euclidean", "row_rms", "column_rms", "bias_rms"]

_TINY = 1e-30


@dataclass(frozen=True)
class Norm:
    """A norm on matrices, with what a step and its tests need to know about it.

    Attributes:
        name: name used in parameter groups and configurations.
        norm: the norm of a (rows, columns) matrix.
        dual: the dual norm, max of <m, u> over the unit ball.
        ascent: the u of the unit ball with <m, u> equal to the dual norm, in closed form; zero where m is zero.
            None for the spectral norm, whose u is iterated for many matrices at once.
    """

    name: NormName
    norm: Callable[[Tensor], Tensor]
    dual: Callable[[Tensor], Tensor]
    ascent: Callable[[Tensor], Tensor] | None


def _unit(m: Tensor, dim: int | tuple[int, int]) -> Tensor:
    # Dividing by the largest entry first keeps the squares of tiny and huge gradients in range.
    m = m / m.abs().amax(dim=dim, keepdim=True).clamp_min(_TINY)
    # `sum` adds in cascades; on a processor `vector_norm` loses four digits over a million entries.
    return m / m.square().sum(dim=dim, keepdim=True).sqrt().clamp_min(_TINY)


def _l2(m: Tensor, dim: int | tuple[int, int] = (0, 1)) -> Tensor:
    norm: Tensor = torch.linalg.vector_norm(m, dim=dim)
    return norm


NORMS: dict[str, Norm] = {
    norm.name: norm
    for norm in (
        Norm(
            "spectral",
            norm=lambda u: torch.linalg.matrix_norm(u, 2),
            dual=lambda m: torch.linalg.matrix_norm(m, "nuc"),
            ascent=None,
        ),
        Norm("sign", norm=lambda u: u.abs().amax(), dual=lambda m: m.abs().sum(), ascent=torch.sign),
        Norm("euclidean", norm=_l2, dual=_l2, ascent=lambda m: _unit(m, (0, 1))),
        Norm(
            "row_rms",
            norm=lambda u: _l2(u, 1).amax() / u.shape[1] ** 0.5,
            dual=lambda m: _l2(m, 1).sum() * m.shape[1] ** 0.5,
            ascent=lambda m: _unit(m, 1) * m.shape[1] ** 0.5,
        ),
        Norm(
            "column_rms",
            norm=lambda u: _l2(u, 0).amax() / u.shape[0] ** 0.5,
            dual=lambda m: _l2(m, 0).sum() * m.shape[0] ** 0.5,
            ascent=lambda m: _unit(m, 0) * m.shape[0] ** 0.5,
        ),
        Norm(
            "bias_rms",
            norm=lambda u: _l2(u) / u.numel() ** 0.5,
            dual=lambda m: _l2(m) * m.numel() ** 0.5,
            ascent=lambda m: _unit(m, (0, 1)) * m.numel() ** 0.5,
        ),
    )
}


def as_matrix(tensor: Tensor) -> Tensor:
    """The matrix that a parameter is for its norm.

    A convolution (out, in, h, w) is the matrix (out, in * h * w), a vector is a column, a scalar is 1 x 1.

    Example:
        >>> as_matrix(torch.zeros(8, 3, 5, 5)).shape, as_matrix(torch.zeros(4)).shape
        (torch.Size([8, 75]), torch.Size([4, 1]))
    """
    return tensor.reshape(tensor.shape[0], -1) if tensor.ndim >= 2 else tensor.reshape(-1, 1)


def shape_factor(name: NormName, rows: int, columns: int) -> float:
    """Factor of the step: sqrt(max(1, rows / columns)) for the spectral norm, 1 for the others.

    It is the factor of the code released with arXiv 2605.18174 (and the "original" one of `torch.optim.Muon`).

    Example:
        >>> shape_factor("spectral", 768, 192)
        2.0
    """
    return max(1.0, rows / columns) ** 0.5 if name == "spectral" else 1.0


def lmo(
    momentum: Tensor,
    norm: NormName = "spectral",
    *,
    coefficients: CoefficientSet = "released",
    dtype: torch.dtype | None = None,
) -> Tensor:
    """Linear minimisation oracle: a u of the norm's unit ball that minimises <momentum, u> (arXiv 2605.18174).

    The spectral oracle, -U V^T, is iterated, so that its singular values are near one rather than one, and comes
    without the shape factor. :class:`lightning_async.optim.LMO` is the optimizer made of these steps.

    Args:
        momentum: a parameter's momentum; of two or more dimensions it is taken as in :func:`as_matrix`.
        norm: one of ``NORMS``.
        coefficients: of the spectral iteration.
        dtype: of the spectral iteration; None is :func:`native_dtype`.

    Returns:
        Tensor of the same shape and type.

    Raises:
        ValueError: for an unknown norm.

    Example:
        >>> lmo(torch.tensor([3.0, -4.0]), "euclidean")
        tensor([-0.6000,  0.8000])
    """
    if norm not in NORMS:
        raise ValueError(f"norm={norm!r} is not known; choose one of {', '.join(NORMS)}")
    matrix = as_matrix(momentum)
    ascent = NORMS[norm].ascent
    if ascent is None:
        dtype = dtype or native_dtype(momentum.device, momentum.dtype)
        u = orthogonalize([matrix], COEFFICIENTS[coefficients], dtype)[0]
    else:
        u = ascent(matrix)
    return -u.to(momentum.dtype).reshape(momentum.shape)
