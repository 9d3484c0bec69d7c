"""l2-regularised logistic regression."""

import torch
from lightning.pytorch import LightningModule
from torch import Tensor, nn
from torch.nn.functional import softplus
from torchmetrics.classification import BinaryAccuracy

from recipes.a9a.objective import objective
from recipes.data import A9A_FEATURES, A9A_TRAIN_ROWS, Batch

__all__ = ["LogisticRegression"]


class LogisticRegression(LightningModule):
    """Logistic regression without bias, f(w) = mean_i log(1 + exp(-y_i x_i'w)) + l2 ||w||^2 / 2, labels -1 and +1.

    The regulariser is part of the loss, so every stochastic gradient is an unbiased one of f whatever the optimizer
    is. Starts at w = 0. With l2 = 1 / 32,561 on a9a the optimum is f = 0.32338, with 85.0 % test accuracy.

    Expects two validation loaders, the whole training set and the test set, and logs ``train/loss`` (f on the
    mini-batch) at every step, ``val/objective`` (f on the training set), ``val/loss`` (mean logistic loss on the
    test set, without the regulariser) and ``val/acc`` (on the test set).

    Args:
        num_features: Dimension of w.
        l2: Weight of the regulariser, non-negative.
        lr: Step size of the plain SGD in ``configure_optimizers``; a configuration's ``optimizer`` replaces it.

    Raises:
        ValueError: If ``num_features`` is not positive or ``l2`` is negative.

    Example:
        >>> round(LogisticRegression(l2=0.0).objective(torch.ones(1, 123), torch.ones(1)).item(), 4)
        0.6931
    """

    def __init__(self, num_features: int = A9A_FEATURES, l2: float = 1 / A9A_TRAIN_ROWS, lr: float = 0.5) -> None:
        super().__init__()
        if num_features < 1:
            raise ValueError(f"num_features must be at least 1, got {num_features}.")
        if l2 < 0:
            raise ValueError(f"l2 must not be negative, got {l2}.")
        self.save_hyperparameters()
        self.l2 = l2
        self.lr = lr
        self.weight = nn.Parameter(torch.zeros(num_features))
        self.val_acc = BinaryAccuracy()

    def forward(self, features: Tensor) -> Tensor:
        """Return the margins ``features @ w``; positive means class +1."""
        return features @ self.weight

    def objective(self, features: Tensor, labels: Tensor) -> Tensor:
        """Return f on the given rows: mean logistic loss plus the regulariser."""
        return objective(labels * self(features), self.weight, self.l2)

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        """Return f on the mini-batch."""
        features, labels = batch
        loss = self.objective(features, labels)
        self.log("train/loss", loss, batch_size=len(labels))
        return loss

    def validation_step(self, batch: Batch, batch_idx: int, dataloader_idx: int = 0) -> None:
        """Evaluate f on the training rows (loader 0), loss and accuracy on the test rows (loader 1)."""
        features, labels = batch
        if dataloader_idx == 0:
            value = self.objective(features, labels)
            self.log("val/objective", value, batch_size=len(labels), add_dataloader_idx=False, prog_bar=True)
            return
        margins = self(features)
        self.val_acc.update(margins, labels > 0)
        loss = softplus(-labels * margins).mean()
        self.log("val/loss", loss, batch_size=len(labels), add_dataloader_idx=False)
        self.log("val/acc", self.val_acc, batch_size=len(labels), add_dataloader_idx=False, prog_bar=True)

    def test_step(self, batch: Batch, batch_idx: int, dataloader_idx: int = 0) -> None:
        """Evaluate as in validation, under the same names."""
        self.validation_step(batch, batch_idx, dataloader_idx)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Return plain SGD."""
        return torch.optim.SGD(self.parameters(), lr=self.lr)
