"""`LMO`: momentum followed by a linear minimisation oracle, the optimizer behind Muon, sign and normalised descent."""

import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor
from torch.optim.optimizer import Optimizer, ParamsT

from lightning_async.optim.newton_schulz import COEFFICIENTS, CoefficientSet, native_dtype, orthogonalize
from lightning_async.optim.norms import NORMS, NormName, as_matrix, shape_factor

__all__ = ["LMO", "NsDtype"]

NsDtype = Literal["bfloat16", "float32", "float64"]

# Blocks of one shape are iterated together up to this many elements, which bounds the extra memory of a step.
_BATCH_ELEMENTS = 1 << 22


class LMO(Optimizer):
    """Momentum as an average, then a step to the minimiser of the linearised loss over a norm ball.

    With g the gradient and beta the group's ``momentum`` (1 - alpha of Ringmaster LMO, arXiv 2605.18174)::

        m <- beta m + (1 - beta) g              u = m, or beta m + (1 - beta) g with nesterov
        x <- (1 - lr weight_decay) x + lr radius factor lmo(u)

    where lmo(u) minimises <u, v> over ||v|| <= 1 and each parameter has a ball of its own. ``norm="spectral"`` is
    Muon, ``"sign"`` sign descent, ``"euclidean"`` normalised SGD, ``"row_rms"``, ``"column_rms"`` and ``"bias_rms"``
    are the norms of Scion (arXiv 2502.07529) for embeddings and biases. ``factor`` is sqrt(max(1, rows / columns))
    for the spectral norm and 1 for the others. Convolutions are matrices (out, in * h * w). A vector is a column: its
    spectral step with that factor *is* the ``bias_rms`` step and is computed as such, so that nothing
    one-dimensional is iterated.

    Every option is a key of the parameter groups. A schedule or a method may change ``group["lr"]`` and
    ``group["momentum"]`` between any two steps; ``averages_momentum`` tells a method that ``momentum`` is the weight
    of an average. A parameter whose gradient is not finite is left as it is in that step, and so is its momentum.

    Extra memory: one momentum per parameter (float32 for half precision parameters), and during a step at most seven
    times the largest batch of equal shapes, a batch being 4,194,304 elements or one larger parameter.

    Args:
        params: parameters or groups.
        lr: length of a step in the norm of the group.
        momentum: weight beta in [0, 1) of the old average.
        nesterov: step along the average that would follow from the same gradient again.
        weight_decay: decoupled, x <- (1 - lr weight_decay) x.
        constrained: Scion's constrained step x <- (1 - lr) x + lr radius factor lmo(u), which never leaves the ball.
        norm: "spectral", "sign", "euclidean", "row_rms", "column_rms" or "bias_rms".
        radius: radius of the ball.
        coefficients: "released" (five different iterations) or "quintic" (those of `torch.optim.Muon`).
        ns_dtype: data type of the spectral iterations; None is bfloat16 where the hardware multiplies it natively and
            float32 elsewhere.

    Raises:
        ValueError: for a value outside its range, at construction.
        RuntimeError: in ``step`` for sparse or complex gradients.

    Example:
        >>> weight = torch.nn.Parameter(torch.eye(2))
        >>> optimizer = LMO([weight], lr=0.5, norm="sign")
        >>> weight.sum().backward()
        >>> optimizer.step()
        >>> weight.data
        tensor([[ 0.5000, -0.5000],
                [-0.5000,  0.5000]])
    """

    averages_momentum: ClassVar[bool] = True
    # On the class, because copies and pickles of an optimizer carry its groups and state only.
    _warned = False

    def __init__(
        self,
        params: ParamsT,
        lr: float = 0.02,
        *,
        momentum: float = 0.95,
        nesterov: bool = False,
        weight_decay: float = 0.0,
        constrained: bool = False,
        norm: NormName = "spectral",
        radius: float = 1.0,
        coefficients: CoefficientSet = "released",
        ns_dtype: NsDtype | torch.dtype | None = None,
    ) -> None:
        defaults = {
            "lr": lr,
            "momentum": momentum,
            "nesterov": nesterov,
            "weight_decay": weight_decay,
            "constrained": constrained,
            "norm": norm,
            "radius": radius,
            "coefficients": coefficients,
            "ns_dtype": ns_dtype,
        }
        super().__init__(params, defaults)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add a group; keys it does not have take the optimizer's defaults.

        Raises:
            ValueError: for a value outside its range.
        """
        param_group = {**self.defaults, **param_group}
        if isinstance(param_group["ns_dtype"], torch.dtype):
            # As a string it is part of a state_dict that any reader can load.
            param_group["ns_dtype"] = str(param_group["ns_dtype"]).removeprefix("torch.")
        _validate(param_group)
        super().add_param_group(param_group)

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """One step for all parameters that have a finite gradient.

        Args:
            closure: reevaluates the model and returns the loss.

        Returns:
            What the closure returns, if there is one.
        """
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            batches: dict[tuple[object, ...], list[Tensor]] = defaultdict(list)
            for parameter in self._with_finite_gradient(group["params"]):
                batches[_batch_key(parameter)].append(parameter)
            for same_shape in batches.values():
                for batch in _chunks(same_shape):
                    self._step_batch(batch, group)
        return loss

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load what :meth:`state_dict` returned, onto the devices of this optimizer's parameters.

        The base class casts momenta to the parameters' type, which would round those of half precision parameters.
        """
        super().load_state_dict(state_dict)
        saved_ids = (index for group in state_dict["param_groups"] for index in group["params"])
        parameters = (parameter for group in self.param_groups for parameter in group["params"])
        for index, parameter in zip(saved_ids, parameters, strict=True):
            if index in state_dict["state"]:
                saved = state_dict["state"][index]["momentum_buffer"]
                loaded = saved.detach().to(device=parameter.device, dtype=_momentum_dtype(parameter), copy=True)
                self.state[parameter]["momentum_buffer"] = loaded

    def _with_finite_gradient(self, parameters: list[Tensor]) -> list[Tensor]:
        candidates = [p for p in parameters if p.grad is not None and p.numel() > 0]
        gradients = [p.grad for p in candidates if p.grad is not None]
        for gradient in gradients:
            if gradient.is_sparse or gradient.is_complex():
                kind = "sparse" if gradient.is_sparse else "complex"
                raise RuntimeError(
                    f"LMO got a {kind} gradient of shape {tuple(gradient.shape)}, but takes dense real gradients only; "
                    "construct embeddings with sparse=False and hold complex parameters as pairs of real ones"
                )
        if not gradients:
            return []
        # The Euclidean norm is the cheapest screen; where it overflows, the entries decide.
        norms = torch._foreach_norm(gradients)
        screened = torch.stack([norm.to(norms[0].device, torch.float32) for norm in norms]).isfinite().tolist()
        if all(screened):
            return candidates
        finite = [ok or bool(g.isfinite().all()) for ok, g in zip(screened, gradients, strict=True)]
        if all(finite):
            return candidates
        if not self._warned:
            self._warned = True
            warnings.warn(
                f"{finite.count(False)} of {len(finite)} parameters have a gradient that is not finite and are left "
                "unchanged in this step; this is reported once",
                stacklevel=3,
            )
        return [p for p, ok in zip(candidates, finite, strict=True) if ok]

    def _step_batch(self, batch: list[Tensor], group: dict[str, Any]) -> None:
        beta, lr = float(group["momentum"]), float(group["lr"])
        dtype = _momentum_dtype(batch[0])
        gradients = [p.grad.to(dtype) for p in batch if p.grad is not None]
        momenta = [self._momentum(p) for p in batch]
        torch._foreach_lerp_(momenta, gradients, 1.0 - beta)
        directions = torch._foreach_lerp(gradients, momenta, beta) if group["nesterov"] else momenta

        matrices = [as_matrix(u) for u in directions]
        norm: NormName = group["norm"] if batch[0].ndim >= 2 or group["norm"] != "spectral" else "bias_rms"
        ascent = NORMS[norm].ascent
        if ascent is None:
            wanted = group["ns_dtype"]
            ns_dtype = getattr(torch, wanted) if wanted else native_dtype(batch[0].device, batch[0].dtype)
            steps = orthogonalize(matrices, COEFFICIENTS[group["coefficients"]], ns_dtype).unbind(0)
        else:
            steps = tuple(ascent(m) for m in matrices)

        shrink = lr if group["constrained"] else lr * group["weight_decay"]
        if shrink != 0:
            torch._foreach_mul_(batch, 1.0 - shrink)
        scale = lr * group["radius"] * shape_factor(norm, *matrices[0].shape)
        torch._foreach_add_(batch, [s.reshape(p.shape) for s, p in zip(steps, batch, strict=True)], alpha=-scale)

    def _momentum(self, parameter: Tensor) -> Tensor:
        state = self.state[parameter]
        if "momentum_buffer" not in state:
            state["momentum_buffer"] = torch.zeros_like(parameter, dtype=_momentum_dtype(parameter))
        buffer: Tensor = state["momentum_buffer"]
        return buffer


def _momentum_dtype(parameter: Tensor) -> torch.dtype:
    # With eight bits an average would stop moving once alpha is below 2^-8.
    return torch.promote_types(parameter.dtype, torch.float32)


def _batch_key(parameter: Tensor) -> tuple[object, ...]:
    return parameter.shape, parameter.dtype, parameter.device


def _chunks(parameters: list[Tensor]) -> Iterator[list[Tensor]]:
    size = max(1, _BATCH_ELEMENTS // parameters[0].numel())
    for start in range(0, len(parameters), size):
        yield parameters[start : start + size]


def _validate(group: dict[str, Any]) -> None:
    if not float(group["lr"]) >= 0:
        raise ValueError(f"lr={group['lr']} must be zero or positive")
    if not 0 <= group["momentum"] < 1:
        raise ValueError(f"momentum={group['momentum']} must be in [0, 1): it is the weight of the old average")
    if not group["weight_decay"] >= 0:
        raise ValueError(f"weight_decay={group['weight_decay']} must be zero or positive")
    if not group["radius"] > 0:
        raise ValueError(f"radius={group['radius']} must be positive")
    if group["constrained"] and group["weight_decay"]:
        raise ValueError(
            f"weight_decay={group['weight_decay']} with constrained=True: the constrained step shrinks by lr already; "
            "leave weight_decay at 0 or use constrained=False with weight_decay=1, which is the same step"
        )
    allowed = {"norm": tuple(NORMS), "coefficients": tuple(COEFFICIENTS), "ns_dtype": (None, *NsDtype.__args__)}  # type: ignore[attr-defined]
    for key, values in allowed.items():
        if group[key] not in values:
            raise ValueError(f"{key}={group[key]!r} is not known; choose one of {', '.join(map(str, values))}")
