"""Fashion-MNIST, 7,000 images: the first 600 training and 100 test images of each class."""

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from recipes.data.files import data_file

__all__ = ["LabelledImages", "channel_statistics", "load_fashion_mnist"]


class LabelledImages(NamedTuple):
    """Training and test images ``(samples, channels, height, width)`` in ``uint8``, with their labels."""

    train_images: Tensor
    train_targets: Tensor
    test_images: Tensor
    test_targets: Tensor


def load_fashion_mnist() -> LabelledImages:
    """Read the shipped part of Fashion-MNIST (Xiao, Rasul and Vollgraf 2017, arXiv 1708.07747).

    Example:
        >>> load_fashion_mnist().train_images.shape
        torch.Size([6000, 1, 28, 28])
    """
    with np.load(data_file("fashion_mnist_7000.npz")) as arrays:
        return LabelledImages(
            torch.from_numpy(arrays["train_images"]).unsqueeze(1),
            torch.from_numpy(arrays["train_labels"]).long(),
            torch.from_numpy(arrays["test_images"]).unsqueeze(1),
            torch.from_numpy(arrays["test_labels"]).long(),
        )


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
