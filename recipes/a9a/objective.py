"""f(w) = mean_i log(1 + exp(-y_i x_i'w)) + l2 ||w||^2 / 2: its value, gradient and minimiser, in plain torch.

Rows come signed, y_i x_i, shape (rows, features): the label needs no place of its own.
"""

import torch
from torch import Tensor
from torch.nn.functional import softplus

__all__ = ["MINIMUM", "loss_gradient", "minimiser", "objective"]

MINIMUM = 0.32338
"""Of f on the training rows of a9a with l2 = 1 / 32,561, to five digits: the results of studies are above it."""

_NEWTON_STEPS = 30
_CONVERGED = 1e-12


def objective(margins: Tensor, w: Tensor, l2: float) -> Tensor:
    """F at w, of the margins y_i x_i'w."""
    return softplus(-margins).mean() + l2 / 2 * w.square().sum()


def loss_gradient(signed: Tensor, w: Tensor) -> Tensor:
    """Gradient of the mean logistic loss of some signed rows at w, without the regulariser's, which is l2 w.

    Example:
        >>> loss_gradient(torch.tensor([[1.0, 0.0], [0.0, -1.0]]), torch.zeros(2))
        tensor([-0.2500,  0.2500])
    """
    return torch.mv(signed.T, torch.sigmoid(-torch.mv(signed, w)) / -len(signed))


def minimiser(signed: Tensor, l2: float) -> Tensor:
    """Where f is smallest, by Newton's method in double precision from 0.

    Args:
        signed: Signed rows, ``float64``.
        l2: Weight of the regulariser; on a9a, whose data are rank deficient, a positive one is needed.
    """
    w = signed.new_zeros(signed.shape[1])
    eye = torch.eye(len(w), dtype=signed.dtype)
    for _ in range(_NEWTON_STEPS):
        wrong = torch.sigmoid(-torch.mv(signed, w))
        gradient = l2 * w - torch.mv(signed.T, wrong) / len(signed)
        if gradient.norm() < _CONVERGED:
            break
        curvature = (signed.T * (wrong * (1 - wrong))) @ signed / len(signed) + l2 * eye
        w = w - torch.linalg.solve(curvature, gradient)
    return w
