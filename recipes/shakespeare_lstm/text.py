"""Shakespeare's plays as a DataModule."""

import torch

from recipes.data import BatchedDataset, CharacterWindows, load_shakespeare
from recipes.datamodule import InMemoryDataModule

__all__ = ["ShakespeareRoles"]


class ShakespeareRoles(InMemoryDataModule):
    """Windows of characters, split by position within each role; ``train_set.groups`` says which role speaks.

    Args:
        sequence_length: Characters predicted per window.
        max_characters: Use only the first so many of the 4.4 million characters; ``None`` for all.
        val_samples: Validate on at most so many windows, spread evenly over the roles; ``None`` for all.
        batch_size: Windows per training mini-batch.
        val_batch_size: Windows per validation mini-batch.
        num_workers: Loading processes; 0 is fastest here.

    Raises:
        ValueError: If a size is out of range.

    Example:
        >>> data = ShakespeareRoles(max_characters=200_000)
        >>> data.setup()
        >>> data.data_name, len(data.train_set)
        ('Shakespeare (first 200,000 characters)', 2222)
    """

    def __init__(
        self,
        sequence_length: int = 80,
        max_characters: int | None = None,
        val_samples: int | None = 500,
        batch_size: int = 32,
        val_batch_size: int = 500,
        num_workers: int = 0,
    ) -> None:
        super().__init__(batch_size, val_batch_size, num_workers)
        if sequence_length < 1:
            raise ValueError(f"sequence_length must be at least 1, got {sequence_length}.")
        for name, size in (("max_characters", max_characters), ("val_samples", val_samples)):
            if size is not None and size < 1:
                raise ValueError(f"{name} must be at least 1, or None for all; got {size}.")
        self.sequence_length = sequence_length
        self.max_characters = max_characters
        self.val_samples = val_samples

    @property
    def data_name(self) -> str:
        """What the data really is, including how much of it is used."""
        if self.max_characters is None:
            return "Shakespeare (38 plays by role)"
        return f"Shakespeare (first {self.max_characters:,} characters)"

    def load(self) -> tuple[BatchedDataset, BatchedDataset]:
        """Cut the windows of both parts."""
        train, validation, _ = load_shakespeare(self.sequence_length, self.max_characters)
        return train, _spread(validation, self.val_samples)


def _spread(windows: CharacterWindows, count: int | None) -> CharacterWindows:
    """Keep ``count`` windows at equal distances: the first ones would all be from one play."""
    if count is None or count >= len(windows):
        return windows
    kept = torch.arange(count) * len(windows) // count
    return CharacterWindows(windows.windows[kept], windows.groups[kept], windows.group_names)
