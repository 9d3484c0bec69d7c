"""Windows of byte-pair tokens of a text."""

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import torch
from torch import Tensor

from recipes.data import Batch, BatchedDataset, load_austen
from recipes.datamodule import InMemoryDataModule
from recipes.nanochat.tokenizer import encode, train_tokenizer

__all__ = ["TextTokens", "TokenWindows", "split_text"]

_PIECES = 100
_VALIDATION = 10  # every tenth piece


class TokenWindows(BatchedDataset):
    """Windows of ``length + 1`` tokens, one behind the other: all but the last are the input, all but the first follow.

    Args:
        tokens: ``(tokens,)`` integers.
        length: Tokens predicted per window.
    """

    def __init__(self, tokens: Tensor, length: int) -> None:
        self.windows = tokens.unfold(0, length + 1, length) if len(tokens) > length else tokens.new_empty(0, length + 1)

    def __len__(self) -> int:
        """Number of windows."""
        return len(self.windows)

    def __getitems__(self, indices: Sequence[int]) -> Batch:
        """Return tokens and the tokens that follow them, each ``(windows, length)`` ``int64``."""
        windows = self.windows.index_select(0, torch.as_tensor(indices)).long()
        return windows[:, :-1], windows[:, 1:]


def split_text(text: str) -> tuple[list[str], list[str]]:
    """Cut a text at line ends into a hundred pieces of about equal length; every tenth is for validation.

    Example:
        >>> import os
        >>> train, validation = split_text(os.linesep.join(["one line of many"] * 1000))
        >>> len(train), len(validation)
        (90, 10)
    """
    cuts = [0]
    for number in range(1, _PIECES):
        end = text.find("\n", number * len(text) // _PIECES)
        cuts.append(len(text) if end < 0 else end + 1)
    pieces = [text[start:end] for start, end in zip(cuts, [*cuts[1:], len(text)], strict=True)]
    train = [piece for number, piece in enumerate(pieces, 1) if piece and number % _VALIDATION]
    return train, [piece for number, piece in enumerate(pieces, 1) if piece and number % _VALIDATION == 0]


class TextTokens(InMemoryDataModule):
    """A text as tokens of a byte-pair encoding that is trained on its training part.

    A tenth of the text, in pieces spread evenly over it, is for validation; nothing is drawn at random. Text and tokens
    are kept for the next DataModule of the same process, so that many runs in one process read them once.

    Args:
        path: A UTF-8 text file; ``None`` for the six novels by Jane Austen that are shipped.
        vocabulary: Tokens of the encoding, 256 or more; as many as the model has.
        sequence_length: Tokens predicted per window.
        max_characters: Use only the first so many characters; ``None`` for all.
        val_samples: Validate on at most so many windows, spread evenly; ``None`` for all.
        batch_size: Windows per training mini-batch.
        val_batch_size: Windows per validation mini-batch.
        num_workers: Loading processes; 0 is fastest here.

    Raises:
        ValueError: If a size is out of range.
        FileNotFoundError: If there is no such file.

    Example:
        >>> data = TextTokens(vocabulary=300, sequence_length=32, max_characters=50_000)
        >>> data.data_name
        'Austen (first 50,000 characters of six novels, 300 BPE tokens)'
    """

    def __init__(
        self,
        path: str | None = None,
        vocabulary: int = 8192,
        sequence_length: int = 2048,
        max_characters: int | None = None,
        val_samples: int | None = 64,
        batch_size: int = 4,
        val_batch_size: int = 4,
        num_workers: int = 0,
    ) -> None:
        super().__init__(batch_size, val_batch_size, num_workers)
        for name, size in (("max_characters", max_characters), ("val_samples", val_samples)):
            if size is not None and size < 1:
                raise ValueError(f"{name} must be at least 1, or None for all; got {size}.")
        if sequence_length < 1:
            raise ValueError(f"sequence_length must be at least 1, got {sequence_length}.")
        if vocabulary < 256:
            raise ValueError(f"vocabulary must be at least 256, one token per byte, got {vocabulary}.")
        if path is not None and not Path(path).is_file():
            raise FileNotFoundError(f"There is no text file {path}; leave path out to read the shipped novels.")
        self.path = path
        self.vocabulary = vocabulary
        self.sequence_length = sequence_length
        self.max_characters = max_characters
        self.val_samples = val_samples

    @property
    def data_name(self) -> str:
        """What the text really is, including how much of it is used."""
        source, what = ("Austen", "six novels") if self.path is None else (Path(self.path).name, "the file")
        part = what if self.max_characters is None else f"first {self.max_characters:,} characters of {what}"
        return f"{source} ({part}, {self.vocabulary} BPE tokens)"

    def setup(self, stage: str | None = None) -> None:
        """Read the text unless an earlier stage has done so.

        Raises:
            ValueError: If the model has another vocabulary, or the text is too short.
        """
        expected = getattr(self.trainer and self.trainer.lightning_module, "vocabulary", self.vocabulary)
        if expected != self.vocabulary:
            raise ValueError(
                f"The model has {expected} tokens, the data {self.vocabulary}: give both the same vocabulary."
            )
        super().setup(stage)

    def load(self) -> tuple[BatchedDataset, BatchedDataset]:
        """Cut the windows of both parts."""
        train, validation = (
            TokenWindows(tokens, self.sequence_length)
            for tokens in _tokens(self.path, self.vocabulary, self.max_characters)
        )
        if len(validation) == 0:
            raise ValueError(
                f"The validation part of {self.data_name} is shorter than one window of {self.sequence_length + 1} "
                f"tokens; choose a smaller sequence_length or a longer text."
            )
        if self.val_samples is not None and self.val_samples < len(validation):
            kept = torch.arange(self.val_samples) * len(validation) // self.val_samples
            validation.windows = validation.windows[kept]
        return train, validation


@lru_cache(maxsize=4)
def _tokens(path: str | None, vocabulary: int, max_characters: int | None) -> tuple[Tensor, Tensor]:
    text = load_austen() if path is None else Path(path).read_text(encoding="utf-8")
    train, validation = split_text(text[:max_characters])
    if not train or not validation:
        raise ValueError(f"The text has {len(text)} characters in too few lines to be split; give a longer one.")
    tokenizer = train_tokenizer(train, vocabulary)
    return encode(tokenizer, train), encode(tokenizer, validation)
