"""a9a as a DataModule."""

from torch.utils.data import DataLoader

from recipes.data import A9A_TRAIN_ROWS, Batch, BatchedDataset, load_a9a
from recipes.datamodule import InMemoryDataModule

__all__ = ["A9A"]


class A9A(InMemoryDataModule):
    """a9a's two splits; validation reads the whole training set and then the test set.

    Args:
        batch_size: Rows per training mini-batch.
        val_batch_size: Rows per validation mini-batch; all of a split by default.
        num_workers: Loading processes; 0 is fastest here.

    Example:
        >>> data = A9A()
        >>> data.setup()
        >>> [len(loader.dataset) for loader in data.val_dataloader()]
        [32561, 16281]
    """

    def __init__(self, batch_size: int = 32, val_batch_size: int = A9A_TRAIN_ROWS, num_workers: int = 0) -> None:
        super().__init__(batch_size, val_batch_size, num_workers)

    @property
    def data_name(self) -> str:
        """What the data really is."""
        return "a9a"

    def load(self) -> tuple[BatchedDataset, BatchedDataset]:
        """Expand both splits to multi-hot rows."""
        train, test = load_a9a()
        return train, test

    def val_dataloader(self) -> list[DataLoader[Batch]]:
        """The training set, for the objective, and the test set, for the accuracy."""
        return [self.evaluation_loader(self.train_set), self.evaluation_loader(self.val_set)]
