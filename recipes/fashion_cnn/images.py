"""DataModules of the image experiments."""

from pathlib import Path

from torchvision.transforms import v2

from recipes.data import (
    BatchedDataset,
    ImageDataset,
    LabelledImages,
    channel_statistics,
    load_cifar10,
    load_cifar10_stand_in,
    load_fashion_mnist,
    require_cifar10,
)
from recipes.datamodule import InMemoryDataModule

__all__ = ["CIFAR10", "FashionMNIST7000"]


class FashionMNIST7000(InMemoryDataModule):
    """The shipped part of Fashion-MNIST: 6,000 training images, validation on 1,000 test images.

    Args:
        batch_size: Images per training mini-batch.
        val_batch_size: Images per validation mini-batch.
        num_workers: Loading processes; 0 is fastest here.

    Example:
        >>> data = FashionMNIST7000()
        >>> data.setup()
        >>> len(data.train_set), len(data.val_set), data.data_name
        (6000, 1000, 'Fashion-MNIST (7,000 images)')
    """

    def __init__(self, batch_size: int = 32, val_batch_size: int = 1000, num_workers: int = 0) -> None:
        super().__init__(batch_size, val_batch_size, num_workers)

    @property
    def data_name(self) -> str:
        """What the data really is."""
        return "Fashion-MNIST (7,000 images)"

    def load(self) -> tuple[BatchedDataset, BatchedDataset]:
        """Read and normalise both splits."""
        return _normalised(load_fashion_mnist())


class CIFAR10(InMemoryDataModule):
    """The genuine CIFAR-10 where the user has it, a stand-in under its own name where not.

    The stand-in is :class:`FashionMNIST7000` padded to 32 x 32 and repeated to three channels: the shapes and the
    number of classes of CIFAR-10, but an easier task on fewer images. ``data_name`` says which of the two it is.

    Args:
        root: Directory that holds ``cifar-10-batches-py``; ``None`` for the stand-in. Nothing is downloaded.
        augment: Crop training images at random after padding by 4 pixels, and flip half of them.
        batch_size: Images per training mini-batch.
        val_batch_size: Images per validation mini-batch.
        num_workers: Loading processes; worth having with ``augment`` beside a GPU.

    Raises:
        FileNotFoundError: If ``root`` is given and CIFAR-10 is not there.

    Example:
        >>> CIFAR10(root=None).data_name
        'Fashion-MNIST stand-in for CIFAR-10'
    """

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
            require_cifar10(Path(root))
        self.root = root
        self.augment = augment

    @property
    def data_name(self) -> str:
        """What the data really is."""
        return "Fashion-MNIST stand-in for CIFAR-10" if self.root is None else "CIFAR-10"

    def load(self) -> tuple[BatchedDataset, BatchedDataset]:
        """Read and normalise both splits; only training images are augmented."""
        images = load_cifar10_stand_in() if self.root is None else load_cifar10(Path(self.root))
        augmentation = v2.Compose([v2.RandomCrop(32, padding=4), v2.RandomHorizontalFlip()])
        return _normalised(images, augmentation if self.augment else None)


def _normalised(images: LabelledImages, augmentation: v2.Transform | None = None) -> tuple[ImageDataset, ImageDataset]:
    """Normalise both splits with the statistics of the training images."""
    mean, std = channel_statistics(images.train_images)
    return (
        ImageDataset(images.train_images, images.train_targets, mean, std, augmentation),
        ImageDataset(images.test_images, images.test_targets, mean, std),
    )
