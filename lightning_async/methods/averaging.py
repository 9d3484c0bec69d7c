"""The mean of the gradients of a step."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

from lightning_async.methods.base import Direction, Gradient, Method
from lightning_async.simulation import Step


class GradientSum:
    """A running sum of gradients, so that averaging n of them needs two in memory and not n.

    A parameter without a gradient (None) counts as zero in the mean.

    Args:
        owned: whether what is added may be changed in place; otherwise the sum has memory of its own.

    Example:
        >>> total = GradientSum()
        >>> total.add([torch.tensor([1.0, 2.0]), None])
        >>> total.add([torch.tensor([3.0, 2.0]), None])
        >>> total.mean()
        [tensor([2., 2.]), None]
    """

    def __init__(self, *, owned: bool = True) -> None:
        self.count = 0
        self._owned = owned
        self._sum: list[Tensor | None] = []

    def add(self, gradient: Gradient) -> None:
        """Add a gradient; the first one is taken over and changed in place, if it is owned."""
        self.count += 1
        if self.count == 1:
            self._sum = [self._own(g) for g in gradient]
            return
        both = [(s, g) for s, g in zip(self._sum, gradient, strict=True) if s is not None and g is not None]
        if both:
            torch._foreach_add_([s for s, _ in both], [g for _, g in both])
        if len(both) < len(self._sum):
            self._sum = [self._own(g) if s is None else s for s, g in zip(self._sum, gradient, strict=True)]

    @property
    def sum(self) -> Gradient:
        """The sum of what was added, not a copy."""
        return self._sum

    def mean(self) -> Gradient:
        """The mean of what was added, in place of the sum; one gradient is returned bit for bit.

        Raises:
            ValueError: if nothing was added.
        """
        if self.count == 0:
            raise ValueError("the mean of no gradients is undefined; add one first")
        if self.count > 1:
            present = [s for s in self._sum if s is not None]
            if present:
                torch._foreach_div_(present, float(self.count))
        return self._sum

    def _own(self, gradient: Tensor | None) -> Tensor | None:
        return gradient if gradient is None or self._owned else gradient.clone()


def mean(gradients: Iterable[Gradient]) -> Gradient:
    """The mean of gradients; the first one is changed in place."""
    total = GradientSum()
    for gradient in gradients:
        total.add(gradient)
    return total.mean()


class AveragingMethod(Method):
    """A method whose direction is the mean of the gradients of the step."""

    averages = True

    def direction(self, step: Step, gradients: Sequence[Gradient]) -> Direction:
        """The mean of the gradients."""
        return mean(gradients)
