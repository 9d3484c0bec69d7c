"""Tiny ImageNet as a DataModule."""

from pathlib import Path

from torchvision.transforms import v2

from recipes.data import BatchedDataset, ImageDataset
from recipes.datamodule import InMemoryDataModule
from recipes.tiny_imagenet.files import SIZE, load_tiny_imagenet, load_tiny_imagenet_stand_in, require_tiny_imagenet

__all__ = ["TinyImageNet"]

# ImageNet's, as torchvision's models are trained with: statistics of 100,000 images would take longer than a run.
_MEAN = [0.485, 0.456, 0.406]
_STD = [0.229, 0.224, 0.225]


class TinyImageNet(InMemoryDataModule):
    """The genuine Tiny ImageNet where the user has it, a stand-in under its own name where not.

    100,000 training images and 10,000 validation images of 200 classes. The stand-in is Fashion-MNIST enlarged to
    64 x 64 and repeated to three channels: right shapes, ten easy classes. ``data_name`` says which of the two it is.

    Args:
        root: Directory that holds ``tiny-imagenet-200``; ``None`` for the stand-in. Nothing is downloaded.
        augment: Crop training images at random after padding by 8 pixels, and flip half of them.
        batch_size: Images per training mini-batch.
        val_batch_size: Images per validation mini-batch.
        num_workers: Loading processes; worth having with ``augment`` beside a GPU.

    Raises:
        FileNotFoundError: If ``root`` is given and Tiny ImageNet is not there.

    Example:
        >>> TinyImageNet(root=None).data_name
        'Fashion-MNIST stand-in for Tiny ImageNet'
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
            require_tiny_imagenet(Path(root))
        self.root = root
        self.augment = augment

    @property
    def data_name(self) -> str:
        """What the data really is."""
        return "Fashion-MNIST stand-in for Tiny ImageNet" if self.root is None else "Tiny ImageNet"

    def load(self) -> tuple[BatchedDataset, BatchedDataset]:
        """Decode both splits; only training images are augmented."""
        images = load_tiny_imagenet_stand_in() if self.root is None else load_tiny_imagenet(Path(self.root))
        augmentation = v2.Compose([v2.RandomCrop(SIZE, padding=8), v2.RandomHorizontalFlip()])
        return (
            ImageDataset(
                images.train_images, images.train_targets, _MEAN, _STD, augmentation if self.augment else None
            ),
            ImageDataset(images.test_images, images.test_targets, _MEAN, _STD),
        )
