"""The DataModule of multi-label classification: COCO's categories, or the garments of composed scenes."""

from collections.abc import Sequence
from pathlib import Path

import torch

from recipes.coco.annotations import CocoImages, read_labels, require_coco
from recipes.coco.scenes import GARMENTS, SIZE, Scenes, compose_scenes
from recipes.data import Batch, BatchedDataset, Normalisation, channel_statistics, load_fashion_mnist
from recipes.datamodule import InMemoryDataModule

__all__ = ["MultiLabelImages", "SceneImages"]

_COCO_CATEGORIES = 80


class SceneImages(BatchedDataset):
    """Scenes kept as bytes, normalised when they are read.

    Args:
        scenes: Pictures and labels.
        mean: Mean per channel, on the scale where white is 1.
        std: Standard deviation per channel, on the same scale.
    """

    def __init__(self, scenes: Scenes, mean: Sequence[float], std: Sequence[float]) -> None:
        self.images = scenes.images
        self.labels = scenes.labels
        self._normalised = Normalisation(mean, std)

    def __len__(self) -> int:
        """Number of scenes."""
        return len(self.images)

    def __getitems__(self, indices: Sequence[int]) -> Batch:
        """Return normalised pictures ``(batch, 3, 64, 64)`` and labels ``(batch, 10)``."""
        rows = torch.as_tensor(indices)
        return self._normalised(self.images.index_select(0, rows)), self.labels.index_select(0, rows)


class MultiLabelImages(InMemoryDataModule):
    """The genuine COCO where the user has it, composed scenes under their own name where not.

    The scenes are made of the shipped part of Fashion-MNIST, those for validation of garments that are in no training
    scene. They are a far easier task than COCO, with exact labels. ``data_name`` says which of the two it is.

    Args:
        root: Folder of COCO 2017; ``None`` for composed scenes. Nothing is downloaded.
        size: Height and width that COCO's images are squeezed to; scenes have 64.
        train_scenes: Number of composed scenes to train on.
        val_scenes: Number of composed scenes to validate on.
        val_images: Validate on the first so many images of COCO; ``None`` for all 5,000.
        seed: Seed of the scenes, not of a run: all runs see the same ones.
        batch_size: Images per training mini-batch.
        val_batch_size: Images per validation mini-batch.
        num_workers: Loading processes; 0 is fastest for scenes, COCO needs some.

    Raises:
        FileNotFoundError: If ``root`` is given and COCO is not there.
        ValueError: If a size is out of range.

    Example:
        >>> data = MultiLabelImages(train_scenes=100, val_scenes=20)
        >>> data.data_name, data.num_labels
        ('composed Fashion-MNIST scenes (100), stand-in for COCO', 10)
    """

    def __init__(
        self,
        root: str | None = None,
        size: int = 224,
        train_scenes: int = 4000,
        val_scenes: int = 500,
        val_images: int | None = None,
        seed: int = 0,
        batch_size: int = 32,
        val_batch_size: int = 250,
        num_workers: int = 0,
    ) -> None:
        super().__init__(batch_size, val_batch_size, num_workers)
        for name, number in (("size", size), ("train_scenes", train_scenes), ("val_scenes", val_scenes)):
            if number < 1:
                raise ValueError(f"{name} must be at least 1, got {number}.")
        if val_images is not None and val_images < 1:
            raise ValueError(f"val_images must be at least 1, or None for all; got {val_images}.")
        if root is not None:
            require_coco(Path(root), "instances")
        self.root = root
        self.size = SIZE if root is None else size
        self.train_scenes = train_scenes
        self.val_scenes = val_scenes
        self.val_images = val_images
        self.seed = seed

    @property
    def data_name(self) -> str:
        """What the data really is."""
        if self.root is not None:
            return "COCO 2017"
        return f"composed Fashion-MNIST scenes ({self.train_scenes:,}), stand-in for COCO"

    @property
    def num_labels(self) -> int:
        """Labels of an image: 80 categories of COCO, 10 garments."""
        return len(GARMENTS) if self.root is None else _COCO_CATEGORIES

    def setup(self, stage: str | None = None) -> None:
        """Read the data unless an earlier stage has done so.

        Raises:
            ValueError: If the model has another number of labels.
        """
        expected = getattr(self.trainer and self.trainer.lightning_module, "num_labels", self.num_labels)
        if expected != self.num_labels:
            raise ValueError(
                f"The model has {expected} labels, {self.data_name} has {self.num_labels}: set the model's "
                f"num_labels to {self.num_labels}."
            )
        super().setup(stage)

    def load(self) -> tuple[BatchedDataset, BatchedDataset]:
        """Read both splits, or compose them."""
        if self.root is None:
            garments = load_fashion_mnist()
            train = compose_scenes(garments.train_images, garments.train_targets, self.train_scenes, self.seed)
            validation = compose_scenes(garments.test_images, garments.test_targets, self.val_scenes, self.seed + 1)
            mean, std = channel_statistics(train.images)
            return SceneImages(train, mean, std), SceneImages(validation, mean, std)
        splits = [read_labels(Path(self.root), split) for split in ("train", "val")]
        if splits[0].names != splits[1].names or len(splits[0].names) != _COCO_CATEGORIES:
            raise ValueError(
                f"The annotations under {self.root} have {len(splits[0].names)} and {len(splits[1].names)} categories, "
                f"COCO has the same {_COCO_CATEGORIES} in both splits."
            )
        train_set, val_set = (CocoImages(split, self.size) for split in splits)
        if self.val_images is not None:
            val_set.paths = val_set.paths[: self.val_images]
        return train_set, val_set
