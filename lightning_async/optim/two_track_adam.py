"""Adam whose two moments come from two estimates of the same gradient."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, overload

import torch
from torch import Tensor
from torch.optim.optimizer import Optimizer, ParamsT

from lightning_async.arguments import real, reals

_STATE = {"step", "second_step", "exp_avg", "exp_avg_sq"}


class TwoTrackAdam(Optimizer):
    """AdamW with a first moment from an unbiased gradient and a second moment from a variance-reduced one.

    Decoding a gradient from few, noisy messages is a choice between no bias and little variance. The first moment
    averages over steps and wants no bias; the second squares its input, so that noise becomes bias, and wants little
    variance. Song and Choi 2026 (arXiv 2605.15890). Without a second gradient a step is one of ``torch.optim.AdamW``,
    bit for bit.

    A second gradient is for one step. Where one of its entries is None (nothing arrived for it), the second moment and
    its bias correction stay; a parameter whose second moment has never been updated is not moved.

    A complex parameter is two real ones.

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
        TypeError: For hyperparameters that are not numbers, in groups as well.
        ValueError: For hyperparameters out of range, in groups as well.

    Example:
        >>> parameter = torch.nn.Parameter(torch.zeros(2))
        >>> optimizer = TwoTrackAdam([parameter], lr=0.1, clip_ratio=1.0)
        >>> parameter.grad = torch.tensor([3.0, -1.0])
        >>> optimizer.set_second_gradient([torch.tensor([2.0, -2.0])])
        >>> optimizer.step()
        >>> [round(value, 4) for value in parameter.tolist()]
        [-0.1, 0.05]
    """

    _second: list[Tensor | None] | None = None

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
        defaults = {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "clip_ratio": clip_ratio}
        super().__init__(params, _checked(defaults))

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add parameters; what the group does not say is as for the others.

        Raises:
            TypeError: If a hyperparameter of the group is not a number.
            ValueError: If a hyperparameter of the group is out of range.
            RuntimeError: If there is a second gradient that no step has taken yet.
        """
        if self._second is not None:
            raise RuntimeError(
                "the second gradient that is set does not cover new parameters: call step() before add_param_group, "
                "or set_second_gradient(None)"
            )
        super().add_param_group(param_group | _checked(param_group) if isinstance(param_group, dict) else param_group)

    def set_second_gradient(self, gradient: Sequence[Tensor | None] | None) -> None:
        """Give the gradient that the second moment is updated with in the next step.

        Args:
            gradient: One tensor per parameter in the order of the groups, None where the second moment is to stay. None
                altogether for an ordinary step.

        Raises:
            TypeError: If it is not a sequence of dense tensors, real for real parameters and complex for complex ones.
            ValueError: If the number of entries, a shape or a device does not match the parameters.
        """
        if gradient is None:
            self._second = None
            return
        if not isinstance(gradient, Sequence):
            raise TypeError(
                "the second gradient must be a sequence with one tensor, or None, for each parameter, "
                f"got a {type(gradient).__name__}"
            )
        parameters = [p for group in self.param_groups for p in group["params"]]
        if len(gradient) != len(parameters):
            raise ValueError(f"The second gradient has {len(gradient)} entries for {len(parameters)} parameters.")
        for index, (p, g) in enumerate(zip(parameters, gradient, strict=True)):
            if g is not None:
                _check_entry(f"Entry {index} of the second gradient", g, p)
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
            ValueError: If the state is that of another optimizer, or of an AdamW with ``amsgrad`` or ``maximize``,
                which have no counterpart here.
        """
        groups, states = state_dict["param_groups"], state_dict["state"]
        for option in ("amsgrad", "maximize"):
            if any(group.get(option) for group in groups):
                raise ValueError(
                    f"The state comes from an AdamW with {option}=True, which TwoTrackAdam cannot continue."
                )
        if not all(map(_is_adamw, groups)) or any(state.keys() - _STATE for state in states.values()):
            names = sorted({name for group in groups for name in group} - {"params"})
            raise ValueError(
                "The state must be that of a TwoTrackAdam or a torch.optim.AdamW; this one comes from another "
                f"optimizer, with the hyperparameters {', '.join(names)}."
            )
        super().load_state_dict(state_dict)
        for group in self.param_groups:
            group.setdefault("clip_ratio", self.defaults["clip_ratio"])
        for state in self.state.values():
            if "step" in state:
                state.setdefault("second_step", state["step"].clone())

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_second": self._second}


def _is_adamw(group: dict[str, Any]) -> bool:
    """Whether a group of parameters is one of `TwoTrackAdam` or AdamW; without weight decay Adam is AdamW."""
    decoupled = group.get("decoupled_weight_decay", True) or group["weight_decay"] == 0
    return "betas" in group and ("clip_ratio" in group or ("amsgrad" in group and decoupled))


def _checked(given: dict[str, Any]) -> dict[str, Any]:
    """The hyperparameters that are given, as plain numbers. A step size in a tensor stays there, for schedulers."""
    checked: dict[str, Any] = {}
    for name in ("lr", "eps", "weight_decay"):
        if name in given:
            number = real(name, given[name], at_least=0.0)
            checked[name] = given[name] if isinstance(given[name], Tensor) else number
    if "betas" in given:
        betas = reals("betas", given["betas"])
        if len(betas) != 2:
            raise ValueError(f"betas must be two numbers, of the first and the second moment, got {given['betas']!r}")
        checked["betas"] = tuple(real(f"betas[{i}]", beta, at_least=0.0, below=1.0) for i, beta in enumerate(betas))
    clip_ratio = given.get("clip_ratio")
    if "clip_ratio" in given:
        note = ", or None for no limit"
        checked["clip_ratio"] = (
            None if clip_ratio is None else real("clip_ratio", clip_ratio, above=0.0, finite=False, note=note)
        )
    return checked


def _check_entry(name: str, gradient: Tensor, p: Tensor) -> None:
    if not isinstance(gradient, Tensor) or gradient.layout != torch.strided:
        kind = f"{gradient.layout} tensor" if isinstance(gradient, Tensor) else type(gradient).__name__
        raise TypeError(f"{name} must be a dense tensor, or None, got a {kind}.")
    if gradient.is_complex() != p.is_complex():
        raise TypeError(f"{name} is {gradient.dtype}, but its parameter is {p.dtype}; both must be real, or complex.")
    if gradient.shape != p.shape:
        raise ValueError(f"{name} has shape {tuple(gradient.shape)}, its parameter {tuple(p.shape)}.")
    if gradient.device != p.device:
        raise ValueError(f"{name} is on {gradient.device}, its parameter on {p.device}.")


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
    if p.is_complex():
        p, first, exp_avg, exp_avg_sq = (torch.view_as_real(part) for part in (p, first, exp_avg, exp_avg_sq))
        second = None if second is None else torch.view_as_real(second.resolve_conj())
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
