"""Data sets held in memory that hand out whole mini-batches at once."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch.utils.data import Dataset, default_collate

from recipes.data.normalisation import Normalisation

__all__ = ["Batch", "BatchedDataset", "ImageDataset", "collate_batched"]

Batch = tuple[Tensor, Tensor]


class BatchedDataset(Dataset[Batch], ABC):
    """A data set that is indexed once per mini-batch, not once per sample.

    PyTorch's fetcher calls ``__getitems__`` where a data set has it, and ``torch.utils.data.Subset`` passes the call
    on. For small models, 32 separate look-ups and their collation cost more than the gradient; one indexed read does
    not. Use :func:`collate_batched` as the loader's collate function.
    """

    deterministic: bool = True
    """Whether reading draws nothing at random, so that a loader need not seed it."""

    @abstractmethod
    def __len__(self) -> int:
        """Number of samples."""

    @abstractmethod
    def __getitems__(self, indices: Sequence[int]) -> Batch:
        """Return inputs and targets of several samples, stacked along the first dimension."""

    def __getitem__(self, index: int) -> Batch:
        """Return one sample, by the same path as a mini-batch of one."""
        inputs, targets = self.__getitems__([index])
        return inputs[0], targets[0]


def collate_batched(samples: Batch | list[Batch]) -> Batch:
    """Pass a stacked mini-batch through, and stack a list of single samples.

    Example:
        >>> data = ImageDataset(torch.zeros(5, 1, 2, 2, dtype=torch.uint8), torch.arange(5), [0.0], [1.0])
        >>> loader = torch.utils.data.DataLoader(data, batch_size=5, collate_fn=collate_batched)
        >>> [tuple(tensor.shape) for tensor in next(iter(loader))]
        [(5, 1, 2, 2), (5,)]
    """
    if isinstance(samples, tuple):
        return samples
    inputs, targets = default_collate(samples)
    return inputs, targets


class ImageDataset(BatchedDataset):
    """Images kept as bytes, normalised when they are read.

    Args:
        images: ``(samples, channels, height, width)``, ``uint8``; may be an expanded view.
        targets: ``(samples,)`` class numbers.
        mean: Mean per channel, on the scale where white is 1.
        std: Standard deviation per channel, on the same scale.
        transform: Augmentation of one ``uint8`` image, applied before normalising (so that padding is black).

    Attributes:
        targets: ``(samples,)`` ``int64`` labels, which partitioners by label read.

    Raises:
        ValueError: If the images are not four-dimensional bytes or the lengths disagree.
    """

    def __init__(
        self,
        images: Tensor,
        targets: Tensor,
        mean: Sequence[float],
        std: Sequence[float],
        transform: Callable[[Tensor], Tensor] | None = None,
    ) -> None:
        if images.dtype != torch.uint8 or images.ndim != 4:
            raise ValueError(
                f"Expected uint8 images of shape (samples, channels, height, width), got {images.dtype} of shape "
                f"{tuple(images.shape)}."
            )
        if len(targets) != len(images):
            raise ValueError(f"Got {len(images)} images but {len(targets)} targets; each image needs one.")
        if not len(mean) == len(std) == images.shape[1]:
            raise ValueError(
                f"Images have {images.shape[1]} channels, but mean has {len(mean)} entries and std has {len(std)}; "
                "give one number per channel."
            )
        self.images = images
        self.targets = targets.long()
        self.transform = transform
        self.deterministic = transform is None
        self._normalised = Normalisation(mean, std)

    def __len__(self) -> int:
        """Number of images."""
        return len(self.images)

    def __getitems__(self, indices: Sequence[int]) -> Batch:
        """Return normalised ``float32`` images and their labels."""
        rows = torch.as_tensor(indices)
        images = self.images.index_select(0, rows)  # several times faster than images[rows]
        if self.transform is not None:
            images = torch.stack([self.transform(image) for image in images])
        return self._normalised(images), self.targets.index_select(0, rows)
