"""The two functions that are minimised; both have smoothness constant 1."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor

__all__ = ["OBJECTIVES", "Bowl", "Objective", "RippledBowl"]


class Objective(ABC):
    """A smooth function of d coordinates, for many points at once: ``x`` has shape ``(..., d)``.

    Args:
        dimension: d, at least 1.

    Raises:
        ValueError: If the dimension is below 1.
    """

    largest_curvature: float
    """Largest second derivative of the quadratic part."""

    def __init__(self, dimension: int) -> None:
        if dimension < 1:
            raise ValueError(f"dimension must be at least 1, got {dimension}.")
        self.curvature = self.largest_curvature * torch.logspace(-1, 0, dimension, dtype=torch.float64)

    @abstractmethod
    def value(self, x: Tensor) -> Tensor:
        """f(x), shape ``(...)``."""

    @abstractmethod
    def gradient(self, x: Tensor) -> Tensor:
        """The exact gradient, shape ``(..., d)``."""


class Bowl(Objective):
    """f(x) = sum_i l_i x_i^2 / 2 with l_i spread evenly on a logarithmic scale over [0.1, 1].

    Example:
        >>> Bowl(2).gradient(torch.ones(2, dtype=torch.float64)).tolist()
        [0.1, 1.0]
    """

    largest_curvature = 1.0

    def value(self, x: Tensor) -> Tensor:
        """f(x), shape ``(...)``."""
        return (self.curvature * x.square()).sum(-1) / 2

    def gradient(self, x: Tensor) -> Tensor:
        """The exact gradient, shape ``(..., d)``."""
        return self.curvature * x


class RippledBowl(Objective):
    """f(x) = sum_i l_i x_i^2 / 2 + (1 - cos 2 x_i) / 8 with l_i over [0.05, 0.5]: smooth, and not convex.

    Second derivatives are l_i + cos(2 x_i) / 2, between -0.45 and 1. Where l_i is small there are local minima.

    Example:
        >>> bowl = RippledBowl(3)
        >>> x = torch.tensor([1.0, -2.0, 0.5], dtype=torch.float64, requires_grad=True)
        >>> torch.allclose(torch.autograd.grad(bowl.value(x), x)[0], bowl.gradient(x.detach()))
        True
    """

    largest_curvature = 0.5

    def value(self, x: Tensor) -> Tensor:
        """f(x), shape ``(...)``."""
        return (self.curvature * x.square() / 2 + (1 - torch.cos(2 * x)) / 8).sum(-1)

    def gradient(self, x: Tensor) -> Tensor:
        """The exact gradient, shape ``(..., d)``."""
        return self.curvature * x + torch.sin(2 * x) / 4


OBJECTIVES: dict[str, type[Objective]] = {"bowl": Bowl, "rippled": RippledBowl}
"""By the names that a study uses."""
