"""The DataModule of caption modelling: COCO's captions, or those of composed scenes, as tokens."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from recipes.coco.annotations import read_captions, require_coco
from recipes.coco.scenes import compose_scenes
from recipes.data import Batch, BatchedDataset, load_fashion_mnist
from recipes.datamodule import InMemoryDataModule
from recipes.language_modelling import IGNORED
from recipes.nanochat.tokenizer import SMALLEST_VOCABULARY, train_tokenizer

if TYPE_CHECKING:
    from tokenizers import Tokenizer

__all__ = ["GPT2_VOCABULARY", "CaptionTokens", "Captions"]

GPT2_VOCABULARY = 50257
"""Tokens of GPT-2, the last of which ends a text."""


class CaptionTokens(BatchedDataset):
    """Captions between two marks of the end, each predicted token by token.

    Args:
        captions: Tokens of each caption.
        length: Tokens predicted of a caption, the mark included; longer ones are cut.
        end: The mark.
    """

    def __init__(self, captions: Sequence[Sequence[int]], length: int, end: int) -> None:
        self.inputs = torch.full((len(captions), length), end, dtype=torch.int32)
        self.targets = torch.full((len(captions), length), IGNORED, dtype=torch.int32)
        for row, tokens in enumerate(captions):
            following = [*tokens, end][:length]
            self.inputs[row, 1 : len(following)] = torch.tensor(following[:-1], dtype=torch.int32)
            self.targets[row, : len(following)] = torch.tensor(following, dtype=torch.int32)

    def __len__(self) -> int:
        """Number of captions."""
        return len(self.inputs)

    def __getitems__(self, indices: Sequence[int]) -> Batch:
        """Return tokens and the tokens that follow them, each ``(batch, length)``."""
        rows = torch.as_tensor(indices)
        return self.inputs.index_select(0, rows).long(), self.targets.index_select(0, rows).long()


class Captions(InMemoryDataModule):
    """The genuine captions of COCO where the user has them, those of composed scenes under their own name where not.

    Tokens are GPT-2's where ``gpt2`` names a folder with its vocabulary; otherwise those of a byte-pair encoding that
    is trained on the training captions.

    Args:
        root: Folder of COCO 2017; ``None`` for composed scenes. Nothing is downloaded.
        gpt2: Folder with GPT-2's ``vocab.json`` and ``merges.txt``; ``None`` to train an encoding.
        vocabulary: Tokens, the mark of the end included; as many as the model has.
        length: Tokens predicted of a caption; longer ones are cut.
        train_scenes: Number of composed scenes to train on.
        val_scenes: Number of composed scenes to validate on.
        val_captions: Validate on the first so many captions of COCO; ``None`` for all.
        seed: Seed of the scenes, not of a run: all runs see the same ones.
        batch_size: Captions per training mini-batch.
        val_batch_size: Captions per validation mini-batch.
        num_workers: Loading processes; 0 is fastest here.

    Raises:
        FileNotFoundError: If ``root`` or ``gpt2`` is given and their files are not there.
        ValueError: If a size is out of range.

    Example:
        >>> Captions(vocabulary=320, train_scenes=100).data_name
        'captions of composed Fashion-MNIST scenes (100, 320 BPE tokens), stand-in for COCO'
    """

    def __init__(
        self,
        root: str | None = None,
        gpt2: str | None = None,
        vocabulary: int = 320,
        length: int = 80,
        train_scenes: int = 4000,
        val_scenes: int = 500,
        val_captions: int | None = 5000,
        seed: int = 0,
        batch_size: int = 32,
        val_batch_size: int = 250,
        num_workers: int = 0,
    ) -> None:
        super().__init__(batch_size, val_batch_size, num_workers)
        sizes = {"length": length, "train_scenes": train_scenes, "val_scenes": val_scenes}
        for name, number in sizes.items():
            if number < 1:
                raise ValueError(f"{name} must be at least 1, got {number}.")
        if val_captions is not None and val_captions < 1:
            raise ValueError(f"val_captions must be at least 1, or None for all; got {val_captions}.")
        if gpt2 is not None and vocabulary != GPT2_VOCABULARY:
            raise ValueError(f"GPT-2 has {GPT2_VOCABULARY} tokens; got vocabulary={vocabulary} beside gpt2={gpt2!r}.")
        if vocabulary <= SMALLEST_VOCABULARY:
            raise ValueError(
                f"vocabulary must be above {SMALLEST_VOCABULARY}, one token per byte and one for the end; got "
                f"{vocabulary}."
            )
        if root is not None:
            require_coco(Path(root), "captions")
        if gpt2 is not None:
            _require_gpt2(Path(gpt2))
        self.root, self.gpt2, self.vocabulary, self.length = root, gpt2, vocabulary, length
        self.train_scenes, self.val_scenes, self.val_captions, self.seed = train_scenes, val_scenes, val_captions, seed

    @property
    def data_name(self) -> str:
        """What the data really is."""
        tokens = f"{'GPT-2' if self.gpt2 is not None else self.vocabulary} BPE tokens"
        if self.root is not None:
            return f"COCO 2017 captions ({tokens})"
        return f"captions of composed Fashion-MNIST scenes ({self.train_scenes:,}, {tokens}), stand-in for COCO"

    def setup(self, stage: str | None = None) -> None:
        """Read the data unless an earlier stage has done so.

        Raises:
            ValueError: If the model has another vocabulary, or captions that are longer than its context.
        """
        module = self.trainer and self.trainer.lightning_module
        expected = getattr(module, "vocabulary", self.vocabulary)
        if expected != self.vocabulary:
            raise ValueError(
                f"The model has {expected} tokens, the data {self.vocabulary}: give both the same vocabulary."
            )
        if getattr(module, "context", self.length) < self.length:
            raise ValueError(
                f"Captions have {self.length} tokens, the model's context is shorter: raise its context, or lower "
                f"length."
            )
        super().setup(stage)

    def load(self) -> tuple[BatchedDataset, BatchedDataset]:
        """Read the captions and encode them."""
        train, validation = self._texts()
        if self.gpt2 is not None:
            tokenizer = _gpt2_tokenizer(Path(self.gpt2))
        else:
            tokenizer = train_tokenizer(train, self.vocabulary - 1)
        encoded = ([one.ids for one in tokenizer.encode_batch(texts)] for texts in (train, validation))
        train_set, val_set = (CaptionTokens(tokens, self.length, self.vocabulary - 1) for tokens in encoded)
        return train_set, val_set

    def _texts(self) -> tuple[list[str], list[str]]:
        if self.root is not None:
            validation = read_captions(Path(self.root), "val")
            return read_captions(Path(self.root), "train"), validation[: self.val_captions]
        return (
            _scene_captions("train", self.train_scenes, self.seed),
            _scene_captions("test", self.val_scenes, self.seed + 1),
        )


@lru_cache(maxsize=4)
def _scene_captions(part: str, count: int, seed: int) -> list[str]:
    garments = load_fashion_mnist()
    images: Tensor = garments.train_images if part == "train" else garments.test_images
    classes: Tensor = garments.train_targets if part == "train" else garments.test_targets
    return compose_scenes(images, classes, count, seed).captions


def _require_gpt2(folder: Path) -> None:
    missing = [name for name in ("vocab.json", "merges.txt") if not (folder / name).is_file()]
    if missing:
        raise FileNotFoundError(
            f"gpt2={str(folder)!r} lacks {', '.join(missing)} of GPT-2's vocabulary. Give the folder that holds them, "
            "or gpt2=None to train an encoding on the captions."
        )


def _gpt2_tokenizer(folder: Path) -> Tokenizer:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    tokenizer = Tokenizer(models.BPE.from_file(str(folder / "vocab.json"), str(folder / "merges.txt")))
    if tokenizer.get_vocab_size() != GPT2_VOCABULARY:
        raise ValueError(
            f"{folder} has a vocabulary of {tokenizer.get_vocab_size()} tokens; GPT-2 has {GPT2_VOCABULARY}."
        )
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer
