"""All tensors of a small gradient in one kernel, where torch's other ways take one kernel, or several, for each."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from lightning_async.methods.base import Gradient

_FEW = 2**16  # coordinates: reading and writing more of them takes longer than calling kernels


class OneKernel:
    """The kernel of `torch.amp.GradScaler`: it multiplies tensors by a factor, and sees whether they were finite."""

    def __init__(self) -> None:
        self._found = torch.zeros(1, dtype=torch.float32, device="cpu")
        self._one = torch.ones_like(self._found)
        self._factor = torch.ones_like(self._found)

    @staticmethod
    def suits(parameters: Sequence[Tensor]) -> bool:
        """Whether gradients of these parameters are its kind: several on the CPU, of single precision, not large."""
        few = len(parameters) > 1 and sum(p.numel() for p in parameters) <= _FEW
        return few and all(p.is_cpu and p.dtype is torch.float32 for p in parameters)

    def is_finite(self, gradient: Gradient) -> bool:
        """Whether no entry is NaN or infinite. Tensors are written to, and stay what they are bit for bit.

        Raises:
            NotImplementedError: if a tensor is sparse.
            RuntimeError: if a tensor cannot be written to.
        """
        self._run(gradient, self._one)
        if not self._found.item():
            return True
        self._found.zero_()
        return False

    def scale(self, gradient: Gradient, factor: float) -> None:
        """Multiply every entry of a finite gradient, in place.

        Raises:
            NotImplementedError: if a tensor is sparse; nothing was multiplied.
        """
        self._run(gradient, self._factor.fill_(factor))

    def _run(self, gradient: Gradient, factor: Tensor) -> None:
        torch._amp_foreach_non_finite_check_and_unscale_([t for t in gradient if t is not None], self._found, factor)
