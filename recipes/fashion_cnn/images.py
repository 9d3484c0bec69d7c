"""DataModules of the image experiments."""

from collections.abc import Sequence
from pathlib import Path

from recipes.data import (
    BatchedDataset,
    LabelledImages,
    channel_statistics,
    load_cifar10,
    load_cifar10_stand_in,
    load_fashion_mnist,
    require_cifar10,
)
from recipes.datamodule import InMemoryDataModule
from recipes.labelled_images import ImagesOrStandIn, normalised

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
        images = load_fashion_mnist()
        return normalised(images, *channel_statistics(images.train_images))


class CIFAR10(ImagesOrStandIn):
    """The genuine CIFAR-10 where the user has it, a stand-in under its own name where not.

    The stand-in is :class:`FashionMNIST7000` padded to 32 x 32 and repeated to three channels: the shapes and the
    number of classes of CIFAR-10, but an easier task on fewer images. ``data_name`` says which of the two it is.

    Args:
        root: Directory that holds ``cifar-10-batches-py``; ``None`` for the stand-in. Nothing is downloaded.
        augment: Crop training images at random after padding by an eighth of their size, and flip half of them.
        batch_size: Images per training mini-batch.
        val_batch_size: Images per validation mini-batch.
        num_workers: Loading processes.

    Raises:
        FileNotFoundError: If ``root`` is given and CIFAR-10 is not there.

    Example:
        >>> CIFAR10(root=None).data_name
        'Fashion-MNIST stand-in for CIFAR-10'
    """

    genuine = "CIFAR-10"

    def require(self, root: Path) -> None:
        """Raise ``FileNotFoundError`` with the remedy unless ``root`` looks like a CIFAR-10 folder."""
        require_cifar10(root)

    def read(self) -> LabelledImages:
        """Read CIFAR-10, or the padded images of Fashion-MNIST."""
        return load_cifar10_stand_in() if self.root is None else load_cifar10(Path(self.root))

    def statistics(self, images: LabelledImages) -> tuple[Sequence[float], Sequence[float]]:
        """Those of the training images."""
        return channel_statistics(images.train_images)
