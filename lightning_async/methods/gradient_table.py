"""What the server has received from every worker: sums of gradients and their numbers."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from lightning_async.methods.base import Gradient


class GradientTable:
    """For every worker i that has sent something the sum G_i of its gradients and their number b_i.

    The table has memory of its own, one gradient for each worker in it. A parameter without a gradient (None) counts as
    zero.

    Example:
        >>> table = GradientTable()
        >>> for worker, value in ((0, 1.0), (0, 3.0), (1, 6.0)):
        ...     table.add(worker, [torch.tensor([value])])
        >>> table.mean()
        [tensor([4.])]
    """

    def __init__(self) -> None:
        self._sums: dict[int, list[Tensor | None]] = {}
        self._counts: dict[int, int] = {}

    def __len__(self) -> int:
        """Number of workers in the table."""
        return len(self._sums)

    def __contains__(self, worker: int) -> bool:
        return worker in self._sums

    def add(self, worker: int, gradient: Gradient, count: int = 1) -> None:
        """G_i <- G_i + g, b_i <- b_i + count: `gradient` is the sum of `count` gradients."""
        self._counts[worker] = self._counts.get(worker, 0) + count
        accumulate(self._sums.setdefault(worker, [None] * len(gradient)), gradient)

    def replace(self, worker: int, gradient: Gradient) -> None:
        """G_i <- g, b_i <- 1."""
        self.remove(worker)
        self.add(worker, gradient)

    def remove(self, worker: int) -> None:
        """Forget what a worker has sent, if anything."""
        self._sums.pop(worker, None)
        self._counts.pop(worker, None)

    def add_mean_to(self, total: list[Tensor | None], worker: int, sign: float = 1.0) -> None:
        """Add G_i / b_i of one worker to `total`, in place; nothing if it has sent nothing."""
        if worker in self._sums:
            accumulate(total, self._sums[worker], sign / self._counts[worker])

    def sum_of_means(self) -> list[Tensor | None]:
        """sum_i G_i / b_i over the workers in the table, in memory of its own; an empty list if there is none."""
        total: list[Tensor | None] = []
        for worker in sorted(self._sums):
            total = total or [None] * len(self._sums[worker])
            self.add_mean_to(total, worker)
        return total

    def mean(self) -> list[Tensor | None]:
        """The mean of G_i / b_i over the workers in the table, in memory of its own."""
        return divided(self.sum_of_means(), len(self))

    def state_dict(self) -> dict[str, Any]:
        """Sums and numbers by worker; tensors are not copied."""
        return {"sums": dict(self._sums), "counts": dict(self._counts)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore what `state_dict` returned."""
        self._sums = {worker: copied(gradient) for worker, gradient in state["sums"].items()}
        self._counts = dict(state["counts"])


def accumulate(total: list[Tensor | None], gradient: Gradient, weight: float = 1.0) -> None:
    """Add `weight` times a gradient to `total`, in place; what is missing in `total` is made."""
    both = [(t, g) for t, g in zip(total, gradient, strict=True) if t is not None and g is not None]
    if both:
        torch._foreach_add_([t for t, _ in both], [g for _, g in both], alpha=weight)
    for place, g in enumerate(gradient):
        if total[place] is None and g is not None:
            total[place] = g.detach().clone() if weight == 1.0 else g.detach() * weight


def divided(gradient: Gradient, divisor: float) -> list[Tensor | None]:
    """A gradient over a number, in memory of its own."""
    return [None if g is None else g / divisor for g in gradient]


def copied(gradient: Gradient) -> list[Tensor | None]:
    """A gradient in memory of its own."""
    return [None if g is None else g.clone() for g in gradient]
