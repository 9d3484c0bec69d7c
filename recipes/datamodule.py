"""What the recipes' DataModules share: loaders over data that is already in memory."""

from abc import ABC, abstractmethod

from lightning.pytorch import LightningDataModule
from torch.utils.data import DataLoader

from recipes.data import Batch, BatchedDataset, collate_batched

__all__ = ["InMemoryDataModule"]


class InMemoryDataModule(LightningDataModule, ABC):
    """Loaders over a training and a validation set that fit into memory.

    Training batches are shuffled and always full; validation batches are large, in order, and complete. The data is
    read once, at the first ``setup``.

    Args:
        batch_size: Samples per training mini-batch.
        val_batch_size: Samples per validation mini-batch.
        num_workers: Loading processes, 0 to load in the training process (fastest for data in memory).

    Raises:
        ValueError: If a size is out of range.
    """

    def __init__(self, batch_size: int, val_batch_size: int, num_workers: int) -> None:
        super().__init__()
        for name, size, smallest in (
            ("batch_size", batch_size, 1),
            ("val_batch_size", val_batch_size, 1),
            ("num_workers", num_workers, 0),
        ):
            if size < smallest:
                raise ValueError(f"{name} must be at least {smallest}, got {size}.")
        self.batch_size = batch_size
        self.val_batch_size = val_batch_size
        self.num_workers = num_workers
        self._splits: tuple[BatchedDataset, BatchedDataset] | None = None

    @property
    @abstractmethod
    def data_name(self) -> str:
        """What the data really is; results are reported under this name."""

    @abstractmethod
    def load(self) -> tuple[BatchedDataset, BatchedDataset]:
        """Read the training and the validation set."""

    @property
    def train_set(self) -> BatchedDataset:
        """The training samples; raises ``RuntimeError`` before ``setup``."""
        return self._loaded()[0]

    @property
    def val_set(self) -> BatchedDataset:
        """The validation samples; raises ``RuntimeError`` before ``setup``."""
        return self._loaded()[1]

    def setup(self, stage: str | None = None) -> None:
        """Read the data unless an earlier stage has done so.

        Raises:
            ValueError: If the training set does not fill one mini-batch.
        """
        if self._splits is None:
            splits = self.load()
            if len(splits[0]) < self.batch_size:
                raise ValueError(
                    f"batch_size={self.batch_size} is larger than the training set of {self.data_name}, which has "
                    f"{len(splits[0])} samples; choose a smaller batch_size."
                )
            self._splits = splits

    def train_dataloader(self) -> DataLoader[Batch]:
        """Shuffled full mini-batches: an incomplete last one would weigh its samples more than the others."""
        return DataLoader(
            self.train_set,
            batch_size=self.batch_size,
            shuffle=True,
            drop_last=True,
            collate_fn=collate_batched,
            num_workers=self.num_workers,
            persistent_workers=self.num_workers > 0,
        )

    def val_dataloader(self) -> DataLoader[Batch] | list[DataLoader[Batch]]:
        """Every validation sample once, in order."""
        return self.evaluation_loader(self.val_set)

    def test_dataloader(self) -> DataLoader[Batch] | list[DataLoader[Batch]]:
        """The validation samples: these experiments have no third split."""
        return self.val_dataloader()

    def evaluation_loader(self, samples: BatchedDataset) -> DataLoader[Batch]:
        """Return a loader that reads ``samples`` once, in order."""
        return DataLoader(
            samples,
            batch_size=self.val_batch_size,
            collate_fn=collate_batched,
            num_workers=self.num_workers,
            persistent_workers=self.num_workers > 0,
        )

    def _loaded(self) -> tuple[BatchedDataset, BatchedDataset]:
        if self._splits is None:
            raise RuntimeError(f"{type(self).__name__} has read no data yet: call setup() or hand it to a Trainer.")
        return self._splits
