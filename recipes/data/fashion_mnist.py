"""Fashion-MNIST, 7,000 images: the first 600 training and 100 test images of each class."""

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from recipes.data.files import data_file

__all__ = ["FASHION_MNIST_TRAIN_IMAGES", "LabelledImages", "load_fashion_mnist"]

FASHION_MNIST_TRAIN_IMAGES = 6_000


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
