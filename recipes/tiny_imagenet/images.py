"""Tiny ImageNet as a DataModule."""

from collections.abc import Sequence
from pathlib import Path

from recipes.data import IMAGENET_STATISTICS, LabelledImages
from recipes.labelled_images import ImagesOrStandIn
from recipes.tiny_imagenet.files import load_tiny_imagenet, load_tiny_imagenet_stand_in, require_tiny_imagenet

__all__ = ["TinyImageNet"]


class TinyImageNet(ImagesOrStandIn):
    """The genuine Tiny ImageNet where the user has it, a stand-in under its own name where not.

    100,000 training images and 10,000 validation images of 200 classes. The stand-in is Fashion-MNIST enlarged to
    64 x 64 and repeated to three channels: right shapes, ten easy classes. ``data_name`` says which of the two it is.

    Args:
        root: Directory that holds ``tiny-imagenet-200``; ``None`` for the stand-in. Nothing is downloaded.
        augment: Crop training images at random after padding by an eighth of their size, and flip half of them.
        batch_size: Images per training mini-batch.
        val_batch_size: Images per validation mini-batch.
        num_workers: Loading processes.

    Raises:
        FileNotFoundError: If ``root`` is given and Tiny ImageNet is not there.

    Example:
        >>> TinyImageNet(root=None).data_name
        'Fashion-MNIST stand-in for Tiny ImageNet'
    """

    genuine = "Tiny ImageNet"

    def require(self, root: Path) -> None:
        """Raise ``FileNotFoundError`` with the remedy unless ``root`` looks like Tiny ImageNet's."""
        require_tiny_imagenet(root)

    def read(self) -> LabelledImages:
        """Decode Tiny ImageNet, or enlarge the images of Fashion-MNIST."""
        return load_tiny_imagenet_stand_in() if self.root is None else load_tiny_imagenet(Path(self.root))

    def statistics(self, images: LabelledImages) -> tuple[Sequence[float], Sequence[float]]:
        """ImageNet's: those of 100,000 images would take longer than a run."""
        return IMAGENET_STATISTICS
