"""Multi-label classification with networks of torchvision, or a small one, trained from scratch."""

from collections.abc import Callable
from typing import Literal

import torch
from lightning.pytorch import LightningModule
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits
from torchmetrics.classification import MultilabelAveragePrecision
from torchvision.models import mobilenet_v3_small, resnet50

from recipes.data import Batch

__all__ = ["MultiLabelClassifier"]


def _scene_cnn(num_classes: int) -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 16, kernel_size=5, stride=4, padding=2),
        nn.ReLU(),
        nn.Conv2d(16, 32, kernel_size=3, stride=2, padding=1),
        nn.ReLU(),
        nn.Conv2d(32, 32, kernel_size=3, stride=2, padding=1),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(4),  # nothing to do at 64 x 64
        nn.Flatten(),
        nn.Linear(32 * 4 * 4, num_classes),
    )


_NETWORKS: dict[str, Callable[[int], nn.Module]] = {
    "scene_cnn": _scene_cnn,
    "mobilenet_v3_small": lambda num_classes: mobilenet_v3_small(weights=None, num_classes=num_classes),
    "resnet50": lambda num_classes: resnet50(weights=None, num_classes=num_classes),
}


class MultiLabelClassifier(LightningModule):
    """Which labels an image has, each decided on its own: binary cross-entropy, averaged over the labels.

    Logs ``train/loss`` at every step, ``val/loss`` and ``val/map``, the mean over labels of the average precision.

    Args:
        network: ``"scene_cnn"`` (three strided convolutions, 20 thousand parameters), ``"mobilenet_v3_small"`` (1.5
            million) or ``"resnet50"`` (24 million); random weights.
        num_labels: Number of labels, as many as the data has: 10 for scenes, 80 for COCO.
        lr: Step size of the plain SGD in ``configure_optimizers``; a configuration's ``optimizer`` replaces it.

    Raises:
        ValueError: If there is no such network, or no label.

    Example:
        >>> module = MultiLabelClassifier("mobilenet_v3_small", num_labels=10).eval()
        >>> module(torch.zeros(2, 3, 64, 64)).shape
        torch.Size([2, 10])
    """

    def __init__(
        self,
        network: Literal["scene_cnn", "mobilenet_v3_small", "resnet50"] = "mobilenet_v3_small",
        num_labels: int = 10,
        lr: float = 0.05,
    ) -> None:
        super().__init__()
        if network not in _NETWORKS:
            raise ValueError(f"network must be one of {', '.join(_NETWORKS)}, got {network!r}.")
        if num_labels < 1:
            raise ValueError(f"num_labels must be at least 1, got {num_labels}.")
        self.save_hyperparameters()
        self.network = _NETWORKS[network](num_labels)
        self.num_labels = num_labels
        self.lr = lr
        self.val_map = MultilabelAveragePrecision(num_labels, average="macro")

    def forward(self, images: Tensor) -> Tensor:
        """Return one logit per label."""
        logits: Tensor = self.network(images)
        return logits

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        """Return the mean binary cross-entropy of the mini-batch."""
        images, labels = batch
        loss = binary_cross_entropy_with_logits(self(images), labels)
        self.log("train/loss", loss, batch_size=len(labels))
        return loss

    def validation_step(self, batch: Batch, batch_idx: int) -> None:
        """Accumulate loss and average precision."""
        images, labels = batch
        logits = self(images)
        self.val_map.update(logits, labels.long())
        loss = binary_cross_entropy_with_logits(logits, labels)
        self.log("val/loss", loss, batch_size=len(labels), prog_bar=True)
        self.log("val/map", self.val_map, batch_size=len(labels), prog_bar=True)

    def test_step(self, batch: Batch, batch_idx: int) -> None:
        """Evaluate as in validation, under the same names."""
        self.validation_step(batch, batch_idx)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Return plain SGD."""
        return torch.optim.SGD(self.parameters(), lr=self.lr)
