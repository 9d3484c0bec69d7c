"""Ringmaster LMO without problem-dependent parameters."""

from __future__ import annotations

from math import isqrt
from typing import Literal

from lightning_async.arguments import choice
from lightning_async.methods.ringmaster_asgd import RingmasterASGD
from lightning_async.simulation import Step


class ParameterAgnosticRingmaster(RingmasterASGD):
    """Ringmaster whose threshold, momentum and step size follow from the step number alone.

    Sadiev, Maranjyan, Ilin and Richtarik 2026 (arXiv 2605.18174), the parameter-agnostic variant: alpha_0 = 1 and
    alpha_k = k^(-1/2), a gradient is used iff its delay is below 1 / alpha_k, and the step size is eta (k + 1)^(-3/4)
    with eta the optimizer's learning rate. The optimizer's momentum must be an average, m <- (1 - alpha) m + alpha g,
    as that of `lightning_async.optim.LMO` and `Muon` is; the method is stated without Nesterov's variant.

    Args:
        rounding: "up", as stated: delta < sqrt(k) for integers means R_k = ceil(sqrt(k)). "down": R_k = floor(sqrt(k)),
            as the authors' released code has it.
        stops: whether work that has become useless is stopped.

    Raises:
        TypeError: if `rounding` is not a string, or `stops` not a bool.
        ValueError: if `rounding` is neither.

    Example:
        >>> method = ParameterAgnosticRingmaster()
        >>> [method.threshold_at(k) for k in (0, 1, 2, 4, 5, 9, 10)]
        [1, 1, 2, 2, 3, 3, 4]
    """

    needs_averaged_momentum = True

    def __init__(self, rounding: Literal["up", "down"] = "up", stops: bool = True) -> None:
        super().__init__("adaptive", stops)
        self.rounding = choice("rounding", rounding, ("up", "down"))

    def threshold_at(self, index: int) -> int:
        """R_k of step k = `index`."""
        return super().threshold_at(index) if self.rounding == "up" else max(1, isqrt(index))

    def momentum(self, step: Step) -> float | None:
        """1 - alpha_k."""
        return 1.0 - float(max(1, step.index) ** -0.5)

    def lr_multiplier(self, step: Step) -> float:
        """(k + 1)^(-3/4)."""
        return float((step.index + 1) ** -0.75)
