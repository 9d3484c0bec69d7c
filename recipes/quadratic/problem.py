"""Nesterov's tridiagonal quadratic, with noisy gradients."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["Quadratic"]


class Quadratic:
    """f(x) = x'Ax / 2 - b'x with A = tridiag(-1, 2, -1) / 4 and b = (-1, 0, ..., 0) / 4.

    The eigenvalues of A are sin^2(j pi / (2 (d + 1))), j = 1..d: smoothness 1, condition number of order d^2. The
    minimiser is x*_i = i / (d + 1) - 1.

    Args:
        dimension: d, at least 2.
        noise: Standard deviation of the Gaussian noise on every coordinate of a gradient.
        seed: Seed of the noise, which is drawn in the order in which gradients are used.

    Raises:
        ValueError: If the dimension is below 2 or the noise negative.

    Example:
        >>> problem = Quadratic(4)
        >>> round(problem.gap(problem.start()), 3), problem.gap(problem.minimiser()) < 1e-6
        (1.6, True)
    """

    def __init__(self, dimension: int = 1_729, noise: float = 0.0, seed: int = 0) -> None:
        if dimension < 2:
            raise ValueError(f"dimension must be at least 2, got {dimension}.")
        if not noise >= 0:
            raise ValueError(f"noise must be zero or positive, got {noise}.")
        self.dimension = dimension
        self.noise = noise
        self._generator = torch.Generator().manual_seed(seed)

    def start(self) -> Tensor:
        """x_0 = (sqrt(d), 0, ..., 0)."""
        x = torch.zeros(self.dimension)
        x[0] = self.dimension**0.5
        return x

    def minimiser(self) -> Tensor:
        """x*, where the gradient is zero."""
        return torch.arange(1, self.dimension + 1) / (self.dimension + 1) - 1.0

    def gap(self, x: Tensor) -> float:
        """f(x) - min f, computed as (x - x*)'A(x - x*) / 2, which does not cancel."""
        error = (x - self.minimiser()).double()
        ends = error[0].square() + error[-1].square()
        return float((error.diff().square().sum() + ends) / 8)

    def gradient(self, x: Tensor) -> Tensor:
        """A x - b plus noise."""
        if self.noise:
            gradient = torch.randn(self.dimension, generator=self._generator).mul_(self.noise)
        else:
            gradient = torch.zeros_like(x)
        gradient.add_(x, alpha=0.5)
        gradient[1:].sub_(x[:-1], alpha=0.25)
        gradient[:-1].sub_(x[1:], alpha=0.25)
        gradient[0] += 0.25
        return gradient
