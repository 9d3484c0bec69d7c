"""What the DataModules of labelled images share: normalisation, augmentation, and a stand-in for what is not there."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from torchvision.transforms import v2

from recipes.data import BatchedDataset, ImageDataset, LabelledImages
from recipes.datamodule import InMemoryDataModule

__all__ = ["ImagesOrStandIn", "normalised"]


class ImagesOrStandIn(InMemoryDataModule, ABC):
    """Genuine images where the user has them, Fashion-MNIST in their shape under a name of its own where not.

    Args:
        root: Directory that holds the images; ``None`` for the stand-in. Nothing is downloaded.
        augment: Crop training images at random after padding by an eighth of their size, and flip half of them.
        batch_size: Images per training mini-batch.
        val_batch_size: Images per validation mini-batch.
        num_workers: Loading processes; worth having with ``augment`` beside a GPU.

    Raises:
        FileNotFoundError: If ``root`` is given and the images are not there.
    """

    genuine: ClassVar[str]
    """Name of the data set that is under ``root``."""

    def __init__(
        self,
        root: str | None = None,
        augment: bool = True,
        batch_size: int = 64,
        val_batch_size: int = 500,
        num_workers: int = 0,
    ) -> None:
        super().__init__(batch_size, val_batch_size, num_workers)
        if root is not None:
            self.require(Path(root))
        self.root = root
        self.augment = augment

    @abstractmethod
    def require(self, root: Path) -> None:
        """Raise ``FileNotFoundError`` with the remedy unless ``root`` looks right; reads no image."""

    @abstractmethod
    def read(self) -> LabelledImages:
        """Read the genuine images, or those that stand in for them."""

    @abstractmethod
    def statistics(self, images: LabelledImages) -> tuple[Sequence[float], Sequence[float]]:
        """Mean and standard deviation per channel to normalise with, on the scale where white is 1."""

    @property
    def data_name(self) -> str:
        """What the data really is."""
        return f"Fashion-MNIST stand-in for {self.genuine}" if self.root is None else self.genuine

    def load(self) -> tuple[BatchedDataset, BatchedDataset]:
        """Read and normalise both splits; only training images are augmented."""
        images = self.read()
        size = images.train_images.shape[-1]
        augmentation = v2.Compose([v2.RandomCrop(size, padding=size // 8), v2.RandomHorizontalFlip()])
        return normalised(images, *self.statistics(images), augmentation if self.augment else None)


def normalised(
    images: LabelledImages, mean: Sequence[float], std: Sequence[float], augmentation: v2.Transform | None = None
) -> tuple[ImageDataset, ImageDataset]:
    """Both splits, normalised with the same statistics; only training images are augmented."""
    return (
        ImageDataset(images.train_images, images.train_targets, mean, std, augmentation),
        ImageDataset(images.test_images, images.test_targets, mean, std),
    )
