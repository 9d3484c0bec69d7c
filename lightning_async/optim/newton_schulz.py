"""Newton-Schulz orthogonalisation of a batch of matrices: the spectral linear minimisation oracle without an SVD."""

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor

__all__ = ["COEFFICIENTS", "CoefficientSet", "native_dtype", "orthogonalize"]

CoefficientSet = Literal["released", "quintic"]

Triple = tuple[float, float, float]

COEFFICIENTS: dict[str, tuple[Triple, ...]] = {
    # One triple per iteration, from the code released with arXiv 2605.18174: singular values that are at least a
    # thousandth of the Frobenius norm end close to one.
    "released": (
        (8.156554524902461, -22.48329292557795, 15.878769915207462),
        (4.042929935166739, -2.808917465908714, 0.5000178451051316),
        (3.8916678022926607, -2.772484153217685, 0.5060648178503393),
        (3.285753657755655, -2.3681294933425376, 0.46449024233003106),
        (2.3465413258596377, -1.7097828382687081, 0.42323551169305323),
    ),
    # The triple of K. Jordan's Muon, repeated: what `torch.optim.Muon` uses.
    "quintic": ((3.4445, -4.7750, 2.0315),) * 5,
}

# Only keeps 0/0 away. The released code adds 1e-7 to the norm instead, which shortens the steps of small momenta,
# although an oracle does not depend on the length of its argument.
_SMALLEST_NORM = 1e-15

# From this aspect ratio on, two iterations that share one pass over the long side need fewer multiplications.
_FUSED_ASPECT_RATIO = 1.5


def native_dtype(device: torch.device, parameter_dtype: torch.dtype = torch.float32) -> torch.dtype:
    """Data type in which matrices should be multiplied on a device.

    bfloat16 where the hardware multiplies it natively (AMX, AVX-512 BF16 and Arm BF16 processors, NVIDIA GPUs from
    compute capability 8.0), where it is two to four times faster; float32 elsewhere, where it would be emulated.
    Double precision parameters keep double precision.

    Args:
        device: where the matrices are.
        parameter_dtype: data type of the parameters.

    Returns:
        The data type for :func:`orthogonalize`.

    Example:
        >>> native_dtype(torch.device("cpu"), torch.float64)
        torch.float64
    """
    if parameter_dtype == torch.float64:
        return torch.float64
    if device.type == "cpu":
        return torch.bfloat16 if _cpu_multiplies_bfloat16() else torch.float32
    if device.type == "cuda" and torch.cuda.get_device_capability(device) >= (8, 0):
        return torch.bfloat16
    return torch.float32


def _cpu_multiplies_bfloat16() -> bool:
    if not torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]
        return False
    # Not every torch from 2.9 on has the table of capabilities; the single predicates are older.
    if hasattr(torch.cpu, "get_capabilities"):
        capabilities = torch.cpu.get_capabilities()
        return any(capabilities.get(name, False) for name in ("amx_bf16", "avx512_bf16", "bf16"))
    predicates = ("_is_amx_tile_supported", "_is_avx512_bf16_supported")
    return any(getattr(torch.cpu, name, bool)() for name in predicates)


def orthogonalize(
    matrices: list[Tensor] | tuple[Tensor, ...], coefficients: Sequence[Triple], dtype: torch.dtype
) -> Tensor:
    """Replace the singular values of every matrix by values close to one.

    One iteration is X <- a X + (b X X^T + c (X X^T)^2) X, from X = M / ||M||_F (arXiv 2605.18174 and K. Jordan's
    Muon). The whole batch goes through every product together. For matrices that are not nearly square two iterations
    at a time are done on the Gram matrix of the short side, so that the long side is passed over once for both:
    with U = a I + b G + c G^2 and G = X X^T the Gram matrix of U X is U G U. Restarting from X after two
    iterations keeps the rounding of G, which later iterations would amplify, harmless in bfloat16 too.

    Args:
        matrices: matrices of one shape (rows, columns). Zeros give zeros.
        coefficients: (a, b, c) of each iteration, for example ``COEFFICIENTS["released"]``.
        dtype: data type of the products; norms are taken in the type of ``matrices``.

    Returns:
        Tensor (number of matrices, rows, columns), in ``dtype``.

    Example:
        >>> m = torch.diag(torch.tensor([3.0, 4.0]))
        >>> orthogonalize([m], COEFFICIENTS["released"], torch.float32).diagonal(dim1=1, dim2=2).round(decimals=1)
        tensor([[0.9000, 1.0000]])
    """
    rows, columns = matrices[0].shape
    # Matrix by matrix, in cache, is faster than on the stack.
    x = torch.empty((len(matrices), rows, columns), dtype=dtype, device=matrices[0].device)
    torch._foreach_copy_(x.unbind(0), matrices)
    norms = torch.stack(torch._foreach_norm(matrices))
    x.mul_(norms.clamp_min(_SMALLEST_NORM).reciprocal().to(dtype).view(-1, 1, 1))
    tall = rows > columns
    fuse = max(rows, columns) >= _FUSED_ASPECT_RATIO * min(rows, columns)
    steps = list(coefficients)
    # The first polynomial is the steepest, cancels most, and is therefore the one that stays on its own.
    single = len(steps) % 2 if fuse else len(steps)
    for triple in steps[:single]:
        x = _single(x, tall, triple)
    for first, second in zip(steps[single::2], steps[single + 1 :: 2], strict=True):
        pair = _pair(x, tall, first, second)
        x = torch.bmm(x, pair) if tall else torch.bmm(pair, x)
    return x


def _single(x: Tensor, tall: bool, triple: Triple) -> Tensor:
    a, b, c = triple
    gram = _gram(x, tall)
    update = torch.baddbmm(gram, gram, gram, beta=b, alpha=c)
    # Adding a X outside the product keeps its precision in bfloat16.
    return torch.baddbmm(x, x, update, beta=a) if tall else torch.baddbmm(x, update, x, beta=a)


def _pair(x: Tensor, tall: bool, first: Triple, second: Triple) -> Tensor:
    """The product U2 U1 of two iterations, where U2 belongs to the Gram matrix of U1 X."""
    gram = _gram(x, tall)
    u1 = _polynomial(gram, first)
    gram = torch.bmm(torch.bmm(u1, gram), u1)
    return torch.bmm(_polynomial(gram, second), u1)


def _gram(x: Tensor, tall: bool) -> Tensor:
    return torch.bmm(x.mT, x) if tall else torch.bmm(x, x.mT)


def _polynomial(gram: Tensor, triple: Triple) -> Tensor:
    """A I + b G + c G^2."""
    a, b, c = triple
    result = gram * b
    # Terms of the diagonal cancel: their sum is rounded once, the products are then added to it in float32.
    diagonal = gram.diagonal(dim1=1, dim2=2)
    result.diagonal(dim1=1, dim2=2).copy_(diagonal.to(torch.promote_types(gram.dtype, torch.float32)) * b + a)
    return result.baddbmm_(gram, gram, alpha=c)
