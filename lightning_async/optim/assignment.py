"""Which parameter of a module gets which norm, decided by module types."""

from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Literal

from torch import nn
from torch.nn.modules.batchnorm import _NormBase
from torch.nn.modules.conv import _ConvNd

from lightning_async.optim.norms import NORMS, NormName, as_matrix

__all__ = ["DEFAULT_NORMS", "Assignment", "Role", "assign_norms", "format_table"]

Role = Literal["hidden", "embedding", "tied", "head", "norm", "vector"]

DEFAULT_NORMS: dict[Role, NormName] = {
    "hidden": "spectral",
    "embedding": "row_rms",
    "tied": "sign",
    "head": "sign",
    "norm": "bias_rms",
    "vector": "bias_rms",
}

_EMBEDDINGS = (nn.Embedding, nn.EmbeddingBag)
_NORMALISATIONS = (_NormBase, nn.LayerNorm, nn.GroupNorm, nn.LocalResponseNorm, nn.RMSNorm)


@dataclass(frozen=True)
class Assignment:
    """What was decided about one trainable parameter.

    Attributes:
        name: its name, without the prefix of `torch.compile`.
        parameter: the parameter.
        role: "hidden" matrix or convolution, "embedding", "tied" embedding, "head" (the last `nn.Linear`),
            "norm" (normalisation layer) or "vector" (biases, scalars, class tokens).
        norm: the norm of its steps.
        radius: 1 / columns where the norm is "sign" (sign / d_in of Scion, arXiv 2502.07529), else 1.
    """

    name: str
    parameter: nn.Parameter
    role: Role
    norm: NormName
    radius: float


def assign_norms(
    module: nn.Module,
    norms: Mapping[str, str] | None = None,
    overrides: Mapping[str, str] | None = None,
) -> list[Assignment]:
    """Assign a norm to every trainable parameter of a module.

    Only hidden matrices get Muon, and what is hidden is decided by module type: embeddings, weights tied to one,
    the last `nn.Linear`, normalisation layers and vectors are not. Names play no part, so that a module and its
    `torch.compile`d self get the same table. A head that is not an `nn.Linear` cannot be seen this way and needs an
    override, as does the last `nn.Linear` of a network without a linear head.

    Args:
        module: the model.
        norms: norm by role, in place of the default.
        overrides: norm by name pattern, with ``*`` and ``?`` as in file names; the first pattern that matches wins.

    Returns:
        One assignment per trainable parameter, in the order of ``module.named_parameters()``.

    Raises:
        TypeError: if `module` is not an `nn.Module`.
        ValueError: for an unknown role or norm, and for a pattern that matches no parameter.

    Example:
        >>> model = nn.Sequential(nn.Embedding(10, 4), nn.Linear(4, 8), nn.Linear(8, 10))
        >>> [(a.name, a.role) for a in assign_norms(model) if a.parameter.ndim > 1]
        [('0.weight', 'embedding'), ('1.weight', 'hidden'), ('2.weight', 'head')]
    """
    if not isinstance(module, nn.Module):
        raise TypeError(
            f"norms are assigned by module type and need the nn.Module, got {type(module).__name__}; "
            "pass the module, or give LMO parameter groups with a norm each"
        )
    norms, overrides = dict(norms or {}), dict(overrides or {})
    for key in norms:
        if key not in DEFAULT_NORMS:
            raise ValueError(f"norms has the unknown role {key!r}; roles are {', '.join(DEFAULT_NORMS)}")
    for key, norm in (*norms.items(), *overrides.items()):
        if norm not in NORMS:
            raise ValueError(f"norm {norm!r} of {key!r} is not known; choose one of {', '.join(NORMS)}")

    roles = _roles(module)
    unmatched = set(overrides)
    assignments = []
    for raw_name, parameter in module.named_parameters():
        if not parameter.requires_grad:
            continue
        name = ".".join(part for part in raw_name.split(".") if part != "_orig_mod")
        role = roles[parameter]
        norm = norms.get(role, DEFAULT_NORMS[role])
        matching = [pattern for pattern in overrides if fnmatchcase(name, pattern)]
        unmatched.difference_update(matching)
        if matching:
            norm = overrides[matching[0]]
        if norm == "spectral" and parameter.ndim < 2:
            norm = "bias_rms"
        radius = 1.0 / as_matrix(parameter).shape[1] if norm == "sign" else 1.0
        assignments.append(Assignment(name, parameter, role, NORMS[norm].name, radius))
    if unmatched:
        names = ", ".join(a.name for a in assignments)
        raise ValueError(f"overrides {sorted(unmatched)} match no trainable parameter; there are: {names}")
    return assignments


def _roles(module: nn.Module) -> dict[nn.Parameter, Role]:
    owners: dict[nn.Parameter, list[nn.Module]] = {}
    last_linear: nn.Linear | None = None
    for owner in module.modules():
        if isinstance(owner, nn.Linear):
            last_linear = owner
        for parameter in owner.parameters(recurse=False):
            owners.setdefault(parameter, []).append(owner)
    return {parameter: _role(parameter, holders, last_linear) for parameter, holders in owners.items()}


def _role(parameter: nn.Parameter, holders: list[nn.Module], last_linear: nn.Linear | None) -> Role:
    if any(isinstance(holder, _NORMALISATIONS) for holder in holders):
        return "norm"
    if any(isinstance(holder, _EMBEDDINGS) for holder in holders):
        return "embedding" if all(isinstance(holder, _EMBEDDINGS) for holder in holders) else "tied"
    if parameter.ndim < 2:
        return "vector"
    if last_linear in holders:
        return "head"
    # A token or a scale that a module holds as (1, 1, width) is no matrix; a linear layer with one output is.
    is_layer = any(isinstance(holder, (nn.Linear, _ConvNd)) for holder in holders)
    return "hidden" if is_layer or sum(size > 1 for size in parameter.shape) >= 2 else "vector"


def format_table(assignments: list[Assignment]) -> str:
    """The assignments as text, with equal rows of repeated layers in one line.

    Example:
        >>> print(format_table(assign_norms(nn.Sequential(nn.Linear(4, 8), nn.Linear(8, 2, bias=False)))))
        parameter  shape  count  role    norm
        0.weight   8x4    1      hidden  spectral
        0.bias     8      1      vector  bias_rms
        1.weight   2x8    1      head    sign
    """
    rows: dict[tuple[str, ...], list[str]] = {}
    for a in assignments:
        pattern = ".".join("*" if part.isdigit() else part for part in a.name.split("."))
        shape = "x".join(map(str, a.parameter.shape)) or "scalar"
        rows.setdefault((pattern, shape, a.role, a.norm), []).append(a.name)
    table = [("parameter", "shape", "count", "role", "norm")]
    for (pattern, shape, role, norm), names in rows.items():
        table.append((names[0] if len(names) == 1 else pattern, shape, str(len(names)), role, norm))
    widths = [max(len(row[column]) for row in table) for column in range(5)]
    lines = ("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in table)
    return "\n".join(line.rstrip() for line in lines)
