"""Adam whose two moments come from two estimates of the same gradient."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, overload

import torch
from torch import Tensor
from torch.optim.optimizer import Optimizer, ParamsT


class TwoTrackAdam(Optimizer):
    """AdamW with a first moment from an unbiased gradient and a second moment from a variance-reduced one.

    Decoding a gradient from few, noisy messages is a choice between no bias and little variance. The first moment
    averages over steps and wants no bias; the second squares its input, so that noise becomes bias, and wants little
    variance. Song and Choi 2026 (arXiv 2605.15890). Without a second gradient a step is one of ``torch.optim.AdamW``,
    bit for bit.

    A second gradient is for one step. Where one of its entries is None (nothing arrived for it), the second moment and
    its bias correction stay; a parameter whose second moment has never been updated is not moved.

    Args:
        params: Parameters or groups, as for any optimizer.
        lr: Step size.
        betas: Decay rates of the first and the second moment.
        eps: Added to the root of the second moment.
        weight_decay: Weight decay, decoupled from the gradient; 0 gives Adam.
        clip_ratio: Largest magnitude of m_hat / (sqrt(v_hat) + eps), coordinate by coordinate. With moments from
            different decoders the ratio is not bounded by itself and training may diverge without it; 1 is a good
            value. None for no limit.

    Raises:
        ValueError: For hyperparameters out of range.

    Example:
        >>> parameter = torch.nn.Parameter(torch.zeros(2))
        >>> optimizer = TwoTrackAdam([parameter], lr=0.1, clip_ratio=1.0)
        >>> parameter.grad = torch.tensor([3.0, -1.0])
        >>> optimizer.set_second_gradient([torch.tensor([2.0, -2.0])])
        >>> optimizer.step()
        >>> [round(value, 4) for value in parameter.tolist()]
        [-0.1, 0.05]
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        *,
        clip_ratio: float | None = None,
    ) -> None:
        if not lr >= 0.0:
            raise ValueError(f"lr must not be negative; got {lr}.")
        if not all(0.0 <= beta < 1.0 for beta in betas):
            raise ValueError(f"betas must lie in [0, 1); got {betas}.")
        if not (eps >= 0.0 and weight_decay >= 0.0):
            raise ValueError(f"eps and weight_decay must not be negative; got {eps} and {weight_decay}.")
        if clip_ratio is not None and not clip_ratio > 0.0:
            raise ValueError(f"clip_ratio must be positive, or None for no limit; got {clip_ratio}.")
        defaults = {
            "lr": lr,
            "betas": tuple(betas),
            "eps": eps,
            "weight_decay": weight_decay,
            "clip_ratio": clip_ratio,
        }
        super().__init__(params, defaults)
        self._second: list[Tensor | None] | None = None

    def set_second_gradient(self, gradient: Sequence[Tensor | None] | None) -> None:
        """Give the gradient that the second moment is updated with in the next step.

        Args:
            gradient: One tensor per parameter in the order of the groups, None where the second moment is to stay. None
                altogether for an ordinary step.

        Raises:
            ValueError: If the number of entries or a shape does not match the parameters.
        """
        if gradient is None:
            self._second = None
            return
        parameters = [p for group in self.param_groups for p in group["params"]]
        if len(gradient) != len(parameters):
            raise ValueError(f"The second gradient has {len(gradient)} entries for {len(parameters)} parameters.")
        for index, (p, g) in enumerate(zip(parameters, gradient, strict=True)):
            if g is not None and g.shape != p.shape:
                raise ValueError(
                    f"Entry {index} of the second gradient has shape {tuple(g.shape)}, its parameter {tuple(p.shape)}."
                )
        self._second = list(gradient)

    @overload
    def step(self, closure: None = None) -> None: ...

    @overload
    def step(self, closure: Callable[[], float]) -> float: ...

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:
        """One step; takes the second gradient if one has been set since the last.

        Raises:
            RuntimeError: If a gradient is sparse.
        """
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        second, self._second = self._second, None
        index = 0
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    if p.grad.is_sparse:
                        raise RuntimeError(
                            "TwoTrackAdam does not support sparse gradients; use torch.optim.SparseAdam."
                        )
                    _update(p, p.grad, p.grad if second is None else second[index], self.state[p], group)
                index += 1
        return loss

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore a state, also one of ``torch.optim.AdamW``.

        Raises:
            ValueError: If the state was made with ``amsgrad``, which has no counterpart here.
        """
        if any(group.get("amsgrad") for group in state_dict["param_groups"]):
            raise ValueError("The state comes from an AdamW with amsgrad=True, which TwoTrackAdam cannot continue.")
        super().load_state_dict(state_dict)
        for group in self.param_groups:
            group.setdefault("clip_ratio", self.defaults["clip_ratio"])
        for state in self.state.values():
            if "step" in state:
                state.setdefault("second_step", state["step"].clone())


def _update(p: Tensor, first: Tensor, second: Tensor | None, state: dict[str, Any], group: dict[str, Any]) -> None:
    """The operations of ``torch.optim.AdamW`` in their order, so that rounding agrees as well."""
    if not state:
        state["step"] = torch.zeros((), dtype=torch.float32)
        state["second_step"] = torch.zeros((), dtype=torch.float32)
        state["exp_avg"] = torch.zeros_like(p, memory_format=torch.preserve_format)
        state["exp_avg_sq"] = torch.zeros_like(p, memory_format=torch.preserve_format)
    lr, (beta1, beta2), clip_ratio = float(group["lr"]), group["betas"], group["clip_ratio"]
    exp_avg, exp_avg_sq = state["exp_avg"], state["exp_avg_sq"]
    state["step"] += 1
    if group["weight_decay"] != 0:
        p.mul_(1 - lr * group["weight_decay"])
    exp_avg.lerp_(first, 1 - beta1)
    if second is not None:
        second = second.to(exp_avg_sq.dtype)
        state["second_step"] += 1
        exp_avg_sq.mul_(beta2).addcmul_(second, second, value=1 - beta2)
    if not state["second_step"]:
        return
    correction = 1 - beta1 ** state["step"].item()
    second_correction = 1 - beta2 ** state["second_step"].item()
    denominator = (exp_avg_sq.sqrt() / second_correction**0.5).add_(group["eps"])
    if clip_ratio is None:
        p.addcdiv_(exp_avg, denominator, value=-(lr / correction))
    else:
        ratio = (exp_avg / correction).div_(denominator).clamp_(-clip_ratio, clip_ratio)
        p.add_(ratio, alpha=-lr)
