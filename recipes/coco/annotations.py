"""COCO as its users have it on disk: two annotation files and a folder of images for each split."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from PIL import Image
from torch import Tensor
from torchvision.transforms.v2.functional import pil_to_tensor, resize

from recipes.data import IMAGENET_STATISTICS, Batch, BatchedDataset, Normalisation

__all__ = ["CocoImages", "CocoLabels", "read_captions", "read_labels", "require_coco"]


class CocoLabels(NamedTuple):
    """Files of a split's images, their labels ``(images, categories)`` of 0 and 1, and the categories' names."""

    paths: list[Path]
    labels: Tensor
    names: list[str]


def require_coco(root: Path, kind: str) -> None:
    """Raise ``FileNotFoundError`` with the remedy unless ``root`` has the files of COCO 2017; reads none of them.

    Args:
        root: The folder.
        kind: ``"instances"`` or ``"captions"``.
    """
    needed = [f"annotations/{kind}_{split}2017.json" for split in ("train", "val")]
    if kind == "instances":
        needed += ["train2017", "val2017"]
    missing = [name for name in needed if not (root / name).exists()]
    if missing:
        raise FileNotFoundError(
            f"root={str(root)!r} lacks {', '.join(missing)}. Give the folder into which COCO 2017 (images and "
            "annotations, https://cocodataset.org) was unpacked, or root=None for the composed scenes."
        )


def read_labels(root: Path, split: str) -> CocoLabels:
    """Which categories are in each image of a split (Lin et al. 2014, arXiv 1405.0312).

    Images without an annotation are kept, with no label. Categories are numbered in the order of their COCO ids.

    Args:
        root: Folder with ``annotations`` and the images.
        split: ``"train"`` or ``"val"``.

    Raises:
        FileNotFoundError: If a file is missing.
        ValueError: If the annotations cannot be understood.
    """
    require_coco(root, "instances")
    path = root / "annotations" / f"instances_{split}2017.json"
    content = _read(path, ("images", "annotations", "categories"))
    try:
        categories = sorted(content["categories"], key=lambda category: category["id"])
        column = {category["id"]: number for number, category in enumerate(categories)}
        row = {image["id"]: number for number, image in enumerate(content["images"])}
        paths = [root / f"{split}2017" / image["file_name"] for image in content["images"]]
        labels = torch.zeros(len(row), len(column))
        for annotation in content["annotations"]:
            labels[row[annotation["image_id"]], column[annotation["category_id"]]] = 1.0
    except (KeyError, TypeError) as error:
        raise _not_understood(path, error) from error
    if paths and not paths[0].is_file():
        raise FileNotFoundError(f"{path} names the image {paths[0]}, which is not there. Unpack {split}2017.zip again.")
    return CocoLabels(paths, labels, [category["name"] for category in categories])


def read_captions(root: Path, split: str) -> list[str]:
    """All captions of a split (Chen et al. 2015, arXiv 1504.00325), in the order of the file.

    Args:
        root: Folder with ``annotations``.
        split: ``"train"`` or ``"val"``.

    Raises:
        FileNotFoundError: If the file is missing.
        ValueError: If it cannot be understood.
    """
    require_coco(root, "captions")
    path = root / "annotations" / f"captions_{split}2017.json"
    content = _read(path, ("annotations",))
    try:
        return [" ".join(annotation["caption"].split()) for annotation in content["annotations"]]
    except (KeyError, TypeError, AttributeError) as error:
        raise _not_understood(path, error) from error


class CocoImages(BatchedDataset):
    """Images read from their files when they are needed, squeezed to a square, with their labels.

    Args:
        split: What ``read_labels`` returns.
        size: Height and width in pixels.
    """

    def __init__(self, split: CocoLabels, size: int) -> None:
        self.paths = split.paths
        self.labels = split.labels
        self.size = size
        self._normalised = Normalisation(*IMAGENET_STATISTICS)

    def __len__(self) -> int:
        """Number of images."""
        return len(self.paths)

    def __getitems__(self, indices: Sequence[int]) -> Batch:
        """Return normalised images ``(batch, 3, size, size)`` and labels ``(batch, categories)``."""
        images = torch.stack([self._image(self.paths[index]) for index in indices])
        return self._normalised(images), self.labels[torch.as_tensor(indices)]

    def _image(self, path: Path) -> Tensor:
        try:
            with Image.open(path) as image:
                pixels = pil_to_tensor(image.convert("RGB"))
        except OSError as error:
            raise ValueError(f"{path} cannot be read as an image ({error}); unpack the images again.") from error
        resized: Tensor = resize(pixels, [self.size, self.size], antialias=True)
        return resized


def _read(path: Path, keys: Sequence[str]) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise _not_understood(path, error) from error
    missing = [key for key in keys if not isinstance(content, dict) or key not in content]
    if missing:
        raise ValueError(f"{path} has no {', '.join(missing)}: it is not a file of COCO annotations.")
    return dict(content)


def _not_understood(path: Path, error: Exception) -> ValueError:
    return ValueError(
        f"{path} cannot be understood as COCO annotations ({type(error).__name__}: {error}). Unpack the annotations "
        "again; they are described at https://cocodataset.org/#format-data."
    )
