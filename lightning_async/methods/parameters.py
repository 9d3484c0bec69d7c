"""What can be trained at all."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor


def check_distinct(parameters: Sequence[Tensor]) -> None:
    """Refuse a parameter that is listed twice.

    Raises:
        ValueError: with the positions of the first that is.
    """
    first: dict[int, int] = {}
    for index, p in enumerate(parameters):
        earlier = first.setdefault(id(p), index)
        if earlier != index:
            raise ValueError(
                f"parameters must be distinct tensors, but parameter {index} is parameter {earlier} once more; list "
                f"each of them once"
            )


def check_floating(parameters: Sequence[Tensor]) -> None:
    """Refuse complex, integer and boolean parameters.

    Raises:
        ValueError: with the position of the first that is one.
    """
    for index, p in enumerate(parameters):
        if p.is_complex():
            raise ValueError(
                f"parameters must be real, got parameter {index} of shape {tuple(p.shape)} and {p.dtype}; keep its "
                f"real and imaginary parts in a real parameter, and use torch.view_as_complex(parameter) in forward"
            )
        if not p.is_floating_point():
            raise ValueError(
                f"parameters must be of a floating-point dtype, as steps and means are no integers, got parameter "
                f"{index} of shape {tuple(p.shape)} and {p.dtype}; convert it, as with parameter.float(), or leave it "
                f"out if it is not trained"
            )
