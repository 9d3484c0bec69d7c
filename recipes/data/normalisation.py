"""Images kept as bytes, read as numbers around 0."""

from collections.abc import Sequence

import torch
from torch import Tensor

__all__ = ["IMAGENET_STATISTICS", "Normalisation", "channel_statistics"]

IMAGENET_STATISTICS = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
"""ImageNet's mean and standard deviation per channel, where white is 1, as torchvision's models have it."""


class Normalisation:
    """(image - mean) / std, channel by channel.

    Args:
        mean: Mean per channel, on the scale where white is 1.
        std: Standard deviation per channel, on the same scale.

    Example:
        >>> Normalisation([0.5], [0.5])(torch.tensor([0, 255], dtype=torch.uint8).view(2, 1, 1, 1)).flatten()
        tensor([-1.,  1.])
    """

    def __init__(self, mean: Sequence[float], std: Sequence[float]) -> None:
        scale = 1 / torch.tensor(std, dtype=torch.float32)
        self._scale = (scale / 255).view(-1, 1, 1)
        self._shift = (torch.tensor(mean, dtype=torch.float32) * scale).view(-1, 1, 1)

    def __call__(self, images: Tensor) -> Tensor:
        """Return ``(..., channels, height, width)`` ``uint8`` images as ``float32``."""
        return images.float().mul_(self._scale).sub_(self._shift)


def channel_statistics(images: Tensor) -> tuple[list[float], list[float]]:
    """Return mean and standard deviation of each channel of ``uint8`` images, on the scale where white is 1.

    Counting the 256 values needs no floating-point copy of the images.

    Example:
        >>> channel_statistics(torch.tensor([0, 255], dtype=torch.uint8).view(2, 1, 1, 1))
        ([0.5], [0.5])
    """
    values = torch.arange(256, dtype=torch.float64) / 255
    means, stds = [], []
    for channel in range(images.shape[1]):
        counts = torch.bincount(images[:, channel].flatten(), minlength=256).double()
        weights = counts / counts.sum()
        mean = (weights * values).sum()
        means.append(mean.item())
        stds.append((weights * (values - mean) ** 2).sum().sqrt().item())
    return means, stds
