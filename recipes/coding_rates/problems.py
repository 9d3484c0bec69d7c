"""The two objectives: a strongly convex one with a known optimum, and a small network."""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor
from torch.nn.functional import avg_pool2d, cross_entropy

from recipes.a9a.objective import loss_gradient, minimiser, objective
from recipes.data import FASHION_MNIST_TRAIN_IMAGES, load_a9a, load_fashion_mnist

__all__ = ["LogisticProblem", "NetworkProblem", "Problem", "check_rows"]


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
        self._signed, self._l2 = load_a9a().train.signed, l2
        self._precise = self._signed.double()
        self.num_rows = len(self._signed)
        self.parameters = [torch.zeros(self._signed.shape[1])]
        self.minimiser = minimiser(self._precise, l2)
        self._minimum = self._value(self.minimiser)

    def gradient(self, rows: Tensor) -> list[Tensor]:
        """Gradient of the logistic loss of some rows, and of the whole regulariser."""
        (w,) = self.parameters
        return [loss_gradient(self._signed.index_select(0, rows), w).add_(w, alpha=self._l2)]

    def measure(self) -> float:
        """f(w) - min f."""
        return float(self._value(self.parameters[0].double()) - self._minimum)

    def _value(self, w: Tensor) -> Tensor:
        return objective(torch.mv(self._precise, w), w, self._l2)


def check_rows(rows: int) -> None:
    """Refuse to train on more images than there are.

    Raises:
        ValueError: With how many there are.
    """
    if not 1 <= rows <= FASHION_MNIST_TRAIN_IMAGES:
        raise ValueError(
            f"rows must be between 1 and {FASHION_MNIST_TRAIN_IMAGES}, the images that are shipped; got {rows}."
        )


class NetworkProblem:
    """49 inputs, one hidden layer with tanh, 10 classes, on Fashion-MNIST that is averaged down to 7 x 7: not convex.

    `measure` is the squared norm of the gradient over all rows.

    Args:
        rows: So many images, from the first on.
        hidden: Units of the hidden layer.
        seed: Of the starting point.

    Raises:
        ValueError: If there are not so many images.

    Example:
        >>> sum(p.numel() for p in NetworkProblem(rows=100, hidden=16, seed=0).parameters)
        970
    """

    def __init__(self, rows: int, hidden: int, seed: int) -> None:
        data = load_fashion_mnist()
        check_rows(rows)
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
