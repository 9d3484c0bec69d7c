"""Tiny ImageNet where the user has it, and the Fashion-MNIST images that stand in for it where not."""

from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path

import torch
from torch import Tensor
from torch.nn.functional import pad
from torchvision.datasets.folder import pil_loader
from torchvision.transforms.v2.functional import pil_to_tensor

from recipes.data import LabelledImages, load_fashion_mnist

__all__ = ["load_tiny_imagenet", "load_tiny_imagenet_stand_in", "require_tiny_imagenet"]

FOLDER = "tiny-imagenet-200"
SIZE = 64

_REMEDY = f"Unpack {FOLDER}.zip again, or give root=None to train on the Fashion-MNIST stand-in."


def require_tiny_imagenet(root: Path) -> None:
    """Raise ``FileNotFoundError`` with the remedy unless ``root`` looks like Tiny ImageNet's; reads no image."""
    for name in ("wnids.txt", "train", "val/val_annotations.txt", "val/images"):
        path = root / FOLDER / name
        if not path.exists():
            raise FileNotFoundError(
                f"root={str(root)!r} holds no {FOLDER}/{name}. Give the directory into which {FOLDER}.zip was "
                "unpacked, or root=None to train on the Fashion-MNIST stand-in."
            )


@lru_cache(maxsize=1)
def load_tiny_imagenet(root: Path) -> LabelledImages:
    """Decode the training and the validation images (Le and Yang 2015), 1.4 GB of bytes in full.

    Classes are numbered in the order of ``wnids.txt``. The official test images have no public labels, so the
    validation images are what models are tested on, as usual. The images read last are kept, so that the next run in
    the same process need not decode them again.

    Args:
        root: Directory that holds ``tiny-imagenet-200``. Nothing is downloaded.

    Raises:
        FileNotFoundError: If the folder, or a file that its lists name, is missing or no image.
        ValueError: If the lists name an unknown class, or an image has another size.
    """
    require_tiny_imagenet(root)
    folder = root / FOLDER
    numbers = {name: number for number, name in enumerate((folder / "wnids.txt").read_text().split())}
    return LabelledImages(*_read(_training(folder, numbers)), *_read(_validation(folder, numbers)))


def load_tiny_imagenet_stand_in() -> LabelledImages:
    """Return Fashion-MNIST enlarged to 64 x 64 in three equal channels: Tiny ImageNet's shapes, other pictures.

    Example:
        >>> load_tiny_imagenet_stand_in().test_images.shape
        torch.Size([1000, 3, 64, 64])
    """
    train_images, train_targets, test_images, test_targets = load_fashion_mnist()
    return LabelledImages(_enlarge(train_images), train_targets, _enlarge(test_images), test_targets)


def _training(folder: Path, numbers: dict[str, int]) -> Iterator[tuple[Path, int]]:
    for name, number in numbers.items():
        images = sorted((folder / "train" / name / "images").glob("*.JPEG"))
        if not images:
            raise FileNotFoundError(f"{folder}/train/{name}/images holds no *.JPEG. {_REMEDY}")
        yield from ((path, number) for path in images)


def _validation(folder: Path, numbers: dict[str, int]) -> Iterator[tuple[Path, int]]:
    annotations = folder / "val" / "val_annotations.txt"
    for line in annotations.read_text().splitlines():
        file, name = line.split("\t")[:2]
        if name not in numbers:
            raise ValueError(f"{annotations} says that {file} is of class {name!r}, which wnids.txt does not list.")
        yield folder / "val" / "images" / file, numbers[name]


def _read(labelled: Iterable[tuple[Path, int]]) -> tuple[Tensor, Tensor]:
    paths, targets = zip(*labelled, strict=True)
    images = torch.empty(len(paths), 3, SIZE, SIZE, dtype=torch.uint8)
    for image, path in zip(images, paths, strict=True):
        image.copy_(_decode(path))
    return images, torch.tensor(targets)


def _decode(path: Path) -> Tensor:
    try:
        image: Tensor = pil_to_tensor(pil_loader(path))  # in colour, also where the file is grey
    except OSError as error:
        raise FileNotFoundError(f"{path} is missing or damaged ({error}). {_REMEDY}") from error
    if image.shape != (3, SIZE, SIZE):
        raise ValueError(f"{path} is {image.shape[2]} x {image.shape[1]} pixels; Tiny ImageNet's are {SIZE} x {SIZE}.")
    return image


def _enlarge(images: Tensor) -> Tensor:
    doubled = images.repeat_interleave(2, dim=-2).repeat_interleave(2, dim=-1)
    # An expanded view: the three equal channels take no memory until a mini-batch is read.
    return pad(doubled, (4, 4, 4, 4)).expand(-1, 3, -1, -1)
