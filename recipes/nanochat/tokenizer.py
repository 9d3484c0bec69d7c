"""Byte-pair encoding, trained on the text that is to be modelled."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from tokenizers import Tokenizer

__all__ = ["encode", "train_tokenizer"]

SMALLEST_VOCABULARY = 256
"""One token per byte: there is no text that cannot be written in them."""


def train_tokenizer(pieces: Sequence[str], vocabulary: int) -> Tokenizer:
    """Train a byte-level BPE; the same text gives the same tokens.

    Args:
        pieces: The training text, in parts that do not cut words.
        vocabulary: Number of tokens to end with, at least 256.

    Raises:
        ImportError: If the package ``tokenizers`` is not installed.
        ValueError: If the vocabulary has no room for the bytes.

    Example:
        >>> tokenizer = train_tokenizer(["a rose is a rose is a rose"], vocabulary=260)
        >>> tokenizer.decode(tokenizer.encode("a rose is cafe").ids)
        'a rose is cafe'
    """
    if vocabulary < SMALLEST_VOCABULARY:
        raise ValueError(f"vocabulary must be at least {SMALLEST_VOCABULARY}, one token per byte, got {vocabulary}.")
    try:
        from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    except ImportError as error:
        raise ImportError(
            "The NanoChat recipe trains its byte-pair encoding with the package tokenizers, which is not installed: "
            "pip install tokenizers"
        ) from error
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary, initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()), show_progress=False
    )
    tokenizer.train_from_iterator(pieces, trainer)
    return tokenizer


def encode(tokenizer: Tokenizer, pieces: Sequence[str]) -> Tensor:
    """Return the tokens of all pieces, one after the other, as one ``int32`` tensor."""
    encoded = tokenizer.encode_batch_fast(list(pieces))
    return torch.cat([torch.tensor(one.ids, dtype=torch.int32) for one in encoded])
