"""CIFAR-10 where the user has it, and the Fashion-MNIST images that stand in for it where not."""

from pathlib import Path

import torch
from torch import Tensor
from torch.nn.functional import pad
from torchvision.datasets import CIFAR10

from recipes.data.fashion_mnist import LabelledImages, load_fashion_mnist

__all__ = ["load_cifar10", "load_cifar10_stand_in", "require_cifar10"]


def require_cifar10(root: Path) -> None:
    """Raise ``FileNotFoundError`` with the remedy unless ``root`` looks like a CIFAR-10 folder; reads no image."""
    folder = root / CIFAR10.base_folder
    if not folder.is_dir():
        raise FileNotFoundError(
            f"root={str(root)!r} holds no folder {CIFAR10.base_folder!r}. Give the directory into which "
            "cifar-10-python.tar.gz was unpacked (torchvision.datasets.CIFAR10(root, download=True) does that), "
            "or root=None to train on the Fashion-MNIST stand-in."
        )


def load_cifar10(root: Path) -> LabelledImages:
    """Read the genuine CIFAR-10 (Krizhevsky 2009) through torchvision, which checks every file's MD5 sum.

    Args:
        root: Directory that holds ``cifar-10-batches-py``. Nothing is downloaded.

    Raises:
        FileNotFoundError: If the folder or one of its files is missing or damaged.
    """
    require_cifar10(root)
    try:
        train, test = (CIFAR10(root, train=is_train, download=False) for is_train in (True, False))
    except RuntimeError as error:
        raise FileNotFoundError(
            f"{root / CIFAR10.base_folder} is incomplete or damaged (torchvision: {error}). Unpack "
            "cifar-10-python.tar.gz again, or give root=None to train on the Fashion-MNIST stand-in."
        ) from error
    return LabelledImages(*_as_tensors(train), *_as_tensors(test))


def load_cifar10_stand_in() -> LabelledImages:
    """Return Fashion-MNIST padded to 32 x 32 and repeated to three channels: CIFAR-10's shapes, other pictures.

    Example:
        >>> load_cifar10_stand_in().test_images.shape
        torch.Size([1000, 3, 32, 32])
    """
    train_images, train_targets, test_images, test_targets = load_fashion_mnist()
    return LabelledImages(_enlarge(train_images), train_targets, _enlarge(test_images), test_targets)


def _as_tensors(split: CIFAR10) -> tuple[Tensor, Tensor]:
    return torch.from_numpy(split.data).permute(0, 3, 1, 2).contiguous(), torch.tensor(split.targets)


def _enlarge(images: Tensor) -> Tensor:
    # An expanded view: the three equal channels take no memory until a mini-batch is read.
    return pad(images, (2, 2, 2, 2)).expand(-1, 3, -1, -1)
