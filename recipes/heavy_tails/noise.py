"""Gradient noise of known tail, one stream per seed."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

__all__ = ["LAWS", "SubWeibullNoise"]

LAWS = ("symmetric", "skewed")

_BLOCK = 256
_DOMAIN = 0x7461696C  # separates these draws from others of the same seed


class SubWeibullNoise:
    """Noise of mean zero whose norm is sub-Weibull with tail parameter theta: 0.5 Gaussian, 1 exponential, 2 heavy.

    With E exponential, the symmetric law has a uniformly random direction and norm r E^theta, so that P(norm > y) =
    exp(-(y / r)^(1 / theta)). The skewed one is r (E^theta - mean) along (1, ..., 1) / sqrt(d): mostly a little
    negative, at times far up, which clipping turns into a bias. In both, r is such that the mean square of the norm is
    ``level`` squared. A seed's stream does not depend on which other seeds there are, nor on theta except for the
    exponent.

    Args:
        seeds: One stream each.
        dimension: d.
        theta: Tail parameter > 0.
        level: Root mean square of the norm, >= 0.
        law: symmetric or skewed.

    Raises:
        ValueError: If an argument is out of range.

    Example:
        >>> noise = SubWeibullNoise(seeds=[0, 1], dimension=3, theta=2.0, level=0.5)
        >>> noise.draw().shape
        torch.Size([2, 3])
    """

    def __init__(
        self, seeds: Sequence[int], dimension: int, theta: float, level: float, law: str = "symmetric"
    ) -> None:
        if law not in LAWS:
            raise ValueError(f"law must be one of {', '.join(LAWS)}; got {law!r}.")
        if not theta > 0 or not level >= 0 or dimension < 1 or not seeds:
            raise ValueError(
                f"noise needs a seed, dimension >= 1, theta > 0 and level >= 0; got {len(seeds)} seeds, "
                f"dimension={dimension}, theta={theta}, level={level}."
            )
        self._generators = [np.random.default_rng([_DOMAIN, seed]) for seed in seeds]
        self._dimension = dimension
        self._theta = theta
        self._mean = math.gamma(theta + 1) if law == "skewed" else 0.0
        self._radius = level / math.sqrt(math.gamma(2 * theta + 1) - self._mean**2)
        self._skewed = law == "skewed"
        self._block = torch.empty(0)
        self._next = 0

    def draw(self) -> Tensor:
        """The next noise of every seed, shape ``(seeds, d)``; the tensor is valid until 256 draws later."""
        if self._next == len(self._block):
            self._block, self._next = self._draw_block(), 0
        self._next += 1
        return self._block[self._next - 1]

    def _draw_block(self) -> Tensor:
        directions = np.stack([g.standard_normal((_BLOCK, self._dimension)) for g in self._generators], axis=1)
        exponentials = np.stack([g.standard_exponential(_BLOCK) for g in self._generators], axis=1)
        lengths = self._radius * (exponentials**self._theta - self._mean)
        if self._skewed:
            directions.fill(1.0)
        directions *= (lengths / np.linalg.norm(directions, axis=2))[:, :, None]
        return torch.from_numpy(directions)
