"""`Muon`: an LMO optimizer that takes a module and gives every parameter the norm of its kind."""

import logging
from collections.abc import Mapping
from functools import cache
from typing import Any

import torch
from torch import nn

from lightning_async.optim.assignment import DEFAULT_NORMS, assign_norms, format_table
from lightning_async.optim.lmo import LMO, NsDtype
from lightning_async.optim.newton_schulz import CoefficientSet

__all__ = ["Muon", "param_groups"]

_logger = logging.getLogger(__name__)


def param_groups(
    module: nn.Module,
    lr: float = 0.02,
    *,
    norms: Mapping[str, str] | None = None,
    overrides: Mapping[str, str] | None = None,
    lr_scale: Mapping[str, float] | None = None,
) -> list[dict[str, Any]]:
    """Parameter groups for :class:`LMO`, one for each role, norm and radius that occurs in the module.

    See :func:`~lightning_async.optim.assignment.assign_norms` for the rule. The table of who got what is logged once
    per process at level INFO.

    Args:
        module: the model.
        lr: step size.
        norms: norm by role ("hidden", "embedding", "tied", "head", "norm", "vector"), in place of the default.
        overrides: norm by name pattern, such as ``{"*.gate.weight": "sign"}``; the first match wins.
        lr_scale: factor of ``lr`` by role, 1 where not given.

    Returns:
        Groups with the keys ``params``, ``lr``, ``norm``, ``radius`` and ``role``; hidden matrices come first.

    Raises:
        TypeError: if ``module`` is not a module.
        ValueError: for an unknown role or norm, for a pattern without a match, and if nothing is trainable.

    Example:
        >>> model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
        >>> [(group["role"], group["norm"], group["radius"]) for group in param_groups(model)]
        [('hidden', 'spectral', 1.0), ('head', 'sign', 0.125), ('vector', 'bias_rms', 1.0)]
    """
    scales = dict(lr_scale or {})
    for role, scale in scales.items():
        if role not in DEFAULT_NORMS:
            raise ValueError(f"lr_scale has the unknown role {role!r}; roles are {', '.join(DEFAULT_NORMS)}")
        if not scale >= 0:
            raise ValueError(f"lr_scale[{role!r}]={scale} must be zero or positive")
    assignments = assign_norms(module, norms, overrides)
    if not assignments:
        raise ValueError(f"{type(module).__name__} has no trainable parameter: set requires_grad before")
    _log_once(f"{type(module).__name__}:\n{format_table(assignments)}")
    groups: dict[tuple[str, str, float], list[nn.Parameter]] = {}
    for a in sorted(assignments, key=lambda a: list(DEFAULT_NORMS).index(a.role)):
        groups.setdefault((a.role, a.norm, a.radius), []).append(a.parameter)
    return [
        {"params": parameters, "lr": lr * scales.get(role, 1.0), "norm": norm, "radius": radius, "role": role}
        for (role, norm, radius), parameters in groups.items()
    ]


class Muon(LMO):
    """Muon for the hidden matrices and convolutions of a module, fitting norms for everything else.

    Ringmaster Muon (arXiv 2605.18174) is this optimizer under the schedule of `RingmasterASGD`. It takes the
    module rather than its parameters, since who gets Muon is decided by module type: see :func:`param_groups`.
    In a configuration it is the ``optimizer`` of a strategy, which hands it the LightningModule. Where it replaces
    another class there, say SGD, jsonargparse keeps what has the same name, also defaults: then give ``momentum`` and
    ``nesterov``. Defaults are those of the released code.

    Args:
        module: the model.
        lr: step size of every group, times its ``lr_scale``.
        momentum: weight beta in [0, 1) of the old average.
        nesterov: as in :class:`LMO`; the parameter-agnostic method is stated without it.
        weight_decay: decoupled weight decay.
        constrained: Scion's constrained step.
        norms: norm by role, in place of the default.
        overrides: norm by name pattern.
        lr_scale: factor of ``lr`` by role.
        coefficients: "released" or "quintic", as in :class:`LMO`.
        ns_dtype: data type of the spectral iterations, as in :class:`LMO`.

    Raises:
        TypeError: if ``module`` is not a module.
        ValueError: for a value outside its range, at construction.

    Example:
        >>> model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
        >>> optimizer = Muon(model, lr=0.02, lr_scale={"head": 5.0})
        >>> [(group["role"], group["lr"]) for group in optimizer.param_groups]
        [('hidden', 0.02), ('head', 0.1), ('vector', 0.02)]
    """

    def __init__(
        self,
        module: nn.Module,
        lr: float = 0.02,
        *,
        momentum: float = 0.95,
        nesterov: bool = True,
        weight_decay: float = 0.0,
        constrained: bool = False,
        norms: Mapping[str, str] | None = None,
        overrides: Mapping[str, str] | None = None,
        lr_scale: Mapping[str, float] | None = None,
        coefficients: CoefficientSet = "released",
        ns_dtype: NsDtype | torch.dtype | None = None,
    ) -> None:
        super().__init__(
            param_groups(module, lr, norms=norms, overrides=overrides, lr_scale=lr_scale),
            lr,
            momentum=momentum,
            nesterov=nesterov,
            weight_decay=weight_decay,
            constrained=constrained,
            coefficients=coefficients,
            ns_dtype=ns_dtype,
        )


@cache
def _log_once(table: str) -> None:
    _logger.info("Norms of the parameters of %s", table)
