"""The training and validation steps that all image classifiers share."""

import torch
from lightning.pytorch import LightningModule
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torchmetrics.classification import MulticlassAccuracy

from recipes.data import Batch

__all__ = ["ImageClassifier"]


class ImageClassifier(LightningModule):
    """Cross-entropy training of a network that maps images to one logit per class.

    Logs ``train/loss`` at every step, ``val/loss`` and ``val/acc`` (fraction of images classified correctly).

    Args:
        network: Maps ``(batch, channels, height, width)`` to ``(batch, num_classes)``.
        num_classes: Number of classes.
        lr: Step size of the plain SGD in ``configure_optimizers``; a configuration's ``optimizer`` replaces it.
    """

    def __init__(self, network: nn.Module, num_classes: int, lr: float) -> None:
        super().__init__()
        self.network = network
        self.lr = lr
        self.val_acc = MulticlassAccuracy(num_classes, average="micro")

    def forward(self, images: Tensor) -> Tensor:
        """Return the logits of ``images``."""
        logits: Tensor = self.network(images)
        return logits

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        """Return the mean cross-entropy of the mini-batch."""
        images, labels = batch
        loss = cross_entropy(self(images), labels)
        self.log("train/loss", loss, batch_size=len(labels))
        return loss

    def validation_step(self, batch: Batch, batch_idx: int) -> None:
        """Accumulate loss and accuracy."""
        images, labels = batch
        logits = self(images)
        self.val_acc.update(logits, labels)
        self.log("val/loss", cross_entropy(logits, labels), batch_size=len(labels), prog_bar=True)
        self.log("val/acc", self.val_acc, batch_size=len(labels), prog_bar=True)

    def test_step(self, batch: Batch, batch_idx: int) -> None:
        """Evaluate as in validation, under the same names."""
        self.validation_step(batch, batch_idx)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Return plain SGD."""
        return torch.optim.SGD(self.parameters(), lr=self.lr)
