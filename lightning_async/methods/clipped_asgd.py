"""Clipped asynchronous SGD."""

from __future__ import annotations

from lightning_async.arguments import real
from lightning_async.methods.asgd import ASGD
from lightning_async.methods.dispatch import Dispatch


class ClippedASGD(ASGD):
    """Asynchronous SGD in which workers clip what they send: x_{k+1} = x_k - eta clip_c(g).

    Erickson and Johansson 2026 (arXiv 2606.13287), the homogeneous algorithm with `dispatch="finisher"` and the
    federated one with `dispatch="uniform"`. A clipped gradient moves the iterate by at most eta c, which bounds what
    staleness can do: with the virtual iterate that applies each gradient when it is dispatched,
    ||virtual - x_k|| <= eta c C for C jobs that are out, whatever the delays.

    Args:
        clip: the radius c > 0, a norm over all parameters together.
        dispatch: who gets the next job; see `ASGD`.

    Raises:
        TypeError: if an argument is of the wrong kind.
        ValueError: if `clip` is not positive, or `dispatch` is unknown.
    """

    supports_sparse = False

    def __init__(self, clip: float, dispatch: Dispatch = "finisher") -> None:
        super().__init__(dispatch)
        self.clip = real("clip", clip, above=0.0, finite=False)
