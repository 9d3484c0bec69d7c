"""DiLoCo: local training with an outer Nesterov step on the mean of the replicas."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from lightning_async.arguments import real
from lightning_async.methods.merging import Mixing
from lightning_async.methods.replica_method import DenseMethod


class DiLoCo(DenseMethod):
    """DiLoCo (Douillard et al. 2023, arXiv 2311.08105, Algorithm 1).

    After every window of local steps the outer gradient is x_outer - mean_i x_i; SGD with Nesterov momentum moves
    x_outer along it, and all replicas start again from there. Inner optimizers keep their state.

    Args:
        compute_window: logical time for local steps between two outer steps, at least the fastest worker's step.
        outer_lr: step size of the outer optimizer, > 0.
        outer_momentum: its momentum, in [0, 1).

    Raises:
        TypeError: if an argument is not a number.
        ValueError: if an argument is out of range.

    Example:
        >>> method = DiLoCo(compute_window=1.0, outer_lr=0.5, outer_momentum=0.0)
        >>> method.begin(torch.zeros(1))
        >>> method.outer(torch.ones(1), None)
        tensor([0.5000])
    """

    def __init__(self, compute_window: float, outer_lr: float = 0.7, outer_momentum: float = 0.9) -> None:
        super().__init__(compute_window)
        self.outer_lr = real("outer_lr", outer_lr, above=0.0)
        self.outer_momentum = real("outer_momentum", outer_momentum, at_least=0.0, below=1.0)
        self.rule = Mixing(0.0)
        self._outer: Tensor | None = None
        self._momentum: Tensor | None = None

    def begin(self, initial: Tensor) -> None:
        """The outer iterate is where all replicas begin."""
        self._outer = initial
        self._momentum = torch.zeros_like(self._outer)

    def outer(self, mean: Tensor, where: Tensor | None) -> Tensor:
        """One step of SGD with Nesterov momentum, as `torch.optim.SGD(nesterov=True)` makes it.

        Raises:
            RuntimeError: before `begin`.
        """
        if self._outer is None or self._momentum is None:
            raise RuntimeError("DiLoCo.begin must be called before the first outer step")
        gradient = self._outer - mean
        self._momentum.mul_(self.outer_momentum).add_(gradient)
        self._outer.add_(gradient.add_(self._momentum, alpha=self.outer_momentum), alpha=-self.outer_lr)
        return self._outer

    def state_dict(self) -> dict[str, Any]:
        """Outer iterate and outer momentum."""
        return {"outer": self._outer, "momentum": self._momentum}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore what `state_dict` returned, on the device where the run has begun.

        Raises:
            RuntimeError: before `begin`.
        """
        if self._outer is None:
            raise RuntimeError("DiLoCo.begin must be called before its state is loaded")
        self._outer = state["outer"].to(self._outer, copy=True)
        self._momentum = state["momentum"].to(self._outer, copy=True)
