"""The two objectives: a strongly convex one with a known optimum, and a small network."""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor
from torch.nn.functional import avg_pool2d, cross_entropy, softplus

from recipes.data import load_a9a, load_fashion_mnist

__all__ = ["LogisticProblem", "NetworkProblem", "Problem"]

_NEWTON_STEPS = 30
_CONVERGED = 1e-12


class Problem(Protocol):
    """A finite sum that can be sampled."""

    parameters: list[Tensor]
    """What is optimised; they hold the starting point."""

    num_rows: int
    """Terms of the sum."""

    def gradient(self, rows: Tensor) -> list[Tensor]:
        """Gradient of the mean over the given rows, at `parameters`."""

    def measure(self) -> float:
        """What is to become small, at `parameters`."""


class LogisticProblem:
    """Logistic regression on a9a with an l2 term, f(w) = mean_i log(1 + exp(-y_i x_i'w)) + l2 ||w||^2 / 2.

    The data are rank deficient, so that the constant of strong convexity is l2 itself. `measure` is f(w) - min f, with
    the minimum found by Newton's method in double precision.

    Args:
        l2: Weight of the regulariser.

    Example:
        >>> problem = LogisticProblem(l2=0.1)
        >>> problem.num_rows, round(problem.measure(), 3)
        (32561, 0.223)
    """

    def __init__(self, l2: float) -> None:
        train, _ = load_a9a()
        self._rows, self._labels, self._l2 = train.features, train.targets, l2
        self.num_rows = len(self._labels)
        self.parameters = [torch.zeros(self._rows.shape[1])]
        self._signed = self._rows.double() * self._labels.double()[:, None]
        self.minimiser = self._newton()
        self._minimum = self._value(self.minimiser)

    def gradient(self, rows: Tensor) -> list[Tensor]:
        """Gradient of the logistic loss of some rows, and of the whole regulariser."""
        (w,) = self.parameters
        features, labels = self._rows.index_select(0, rows), self._labels.index_select(0, rows)
        weights = torch.sigmoid(-labels * torch.mv(features, w)) * labels / -len(rows)
        return [torch.mv(features.T, weights).add_(w, alpha=self._l2)]

    def measure(self) -> float:
        """f(w) - min f."""
        return float(self._value(self.parameters[0].double()) - self._minimum)

    def _value(self, w: Tensor) -> Tensor:
        return softplus(-torch.mv(self._signed, w)).mean() + self._l2 / 2 * w.square().sum()

    def _newton(self) -> Tensor:
        w = self.parameters[0].double()
        eye = torch.eye(len(w), dtype=torch.float64)
        for _ in range(_NEWTON_STEPS):
            wrong = torch.sigmoid(-torch.mv(self._signed, w))
            gradient = self._l2 * w - torch.mv(self._signed.T, wrong) / self.num_rows
            if gradient.norm() < _CONVERGED:
                break
            curvature = (self._signed.T * (wrong * (1 - wrong))) @ self._signed / self.num_rows + self._l2 * eye
            w = w - torch.linalg.solve(curvature, gradient)
        return w


class NetworkProblem:
    """49 inputs, one hidden layer with tanh, 10 classes, on Fashion-MNIST that is averaged down to 7 x 7: not convex.

    `measure` is the squared norm of the gradient over all rows.

    Args:
        rows: So many images, from the first on.
        hidden: Units of the hidden layer.
        seed: Of the starting point.

    Example:
        >>> sum(p.numel() for p in NetworkProblem(rows=100, hidden=16, seed=0).parameters)
        970
    """

    def __init__(self, rows: int, hidden: int, seed: int) -> None:
        data = load_fashion_mnist()
        images = avg_pool2d(data.train_images[:rows].float(), 4).flatten(1)
        self._inputs = (images - images.mean()) / images.std()
        self._labels = data.train_targets[:rows].long()
        self.num_rows = len(self._labels)
        generator = torch.Generator().manual_seed(seed)
        inputs, classes = self._inputs.shape[1], 10
        self.parameters = [
            torch.randn(hidden, inputs, generator=generator) / inputs**0.5,
            torch.zeros(hidden),
            torch.randn(classes, hidden, generator=generator) / hidden**0.5,
            torch.zeros(classes),
        ]

    def gradient(self, rows: Tensor) -> list[Tensor]:
        """Gradient of the mean cross-entropy of some rows, by hand: autograd would take most of the time of a run."""
        return self._gradient(self._inputs.index_select(0, rows), self._labels.index_select(0, rows))

    def measure(self) -> float:
        """Squared norm of the whole gradient."""
        return sum(float(g.double().square().sum()) for g in self._gradient(self._inputs, self._labels))

    def loss(self) -> float:
        """Mean cross-entropy over all rows."""
        w, b, v, c = self.parameters
        return float(cross_entropy(torch.tanh(self._inputs @ w.T + b) @ v.T + c, self._labels))

    def _gradient(self, inputs: Tensor, labels: Tensor) -> list[Tensor]:
        w, b, v, c = self.parameters
        active = torch.addmm(b, inputs, w.T).tanh_()
        output = torch.softmax(torch.addmm(c, active, v.T), dim=1)
        output[torch.arange(len(labels)), labels] -= 1.0
        output /= len(labels)
        inner = (output @ v) * (1.0 - active.square())
        return [inner.T @ inputs, inner.sum(dim=0), output.T @ active, output.sum(dim=0)]
