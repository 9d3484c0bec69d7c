"""Shakespeare's plays by speaker, cut into windows of characters."""

import json
import lzma
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from recipes.data.files import data_file
from recipes.data.in_memory import Batch, BatchedDataset

__all__ = ["CharacterWindows", "ShakespeareSplits", "load_shakespeare", "load_shakespeare_roles"]

Codes = NDArray[np.uint8]


class CharacterWindows(BatchedDataset):
    """Windows of ``length + 1`` characters: the first ``length`` are the input, the last ``length`` the target.

    Args:
        windows: ``(windows, length + 1)`` character codes, ``uint8``.
        groups: ``(windows,)`` number of the role that speaks.
        group_names: ``"play/ROLE"`` by role number.

    Attributes:
        groups: ``(windows,)`` ``int64``, which partitioners by group read: a federated split by role.
    """

    def __init__(self, windows: Tensor, groups: Tensor, group_names: Sequence[str]) -> None:
        self.windows = windows
        self.groups = groups.long()
        self.group_names = tuple(group_names)

    def __len__(self) -> int:
        """Number of windows."""
        return len(self.windows)

    def __getitems__(self, indices: Sequence[int]) -> Batch:
        """Return input and target characters, each ``(windows, length)`` ``int64``."""
        windows = self.windows.index_select(0, torch.as_tensor(indices)).long()
        return windows[:, :-1], windows[:, 1:]


class ShakespeareSplits(NamedTuple):
    """Training and validation windows, and the alphabet that their codes index."""

    train: CharacterWindows
    validation: CharacterWindows
    vocabulary: str


def load_shakespeare_roles() -> dict[str, str]:
    """Read the text that each role speaks: 38 plays, 1,426 roles, 4.4 million characters, 81 distinct ones.

    Example:
        >>> len(load_shakespeare_roles())
        1426
    """
    with lzma.open(data_file("shakespeare_roles.json.xz"), "rt", encoding="utf-8") as file:
        roles: dict[str, str] = json.load(file)
    return roles


def load_shakespeare(
    sequence_length: int = 80, max_characters: int | None = None, train_fraction: float = 0.9
) -> ShakespeareSplits:
    """Cut every role into windows: the first ``train_fraction`` of its text for training, the rest for validation.

    The split is by position and draws nothing at random; no character is in both parts. A remainder shorter than a
    window is dropped. The vocabulary is that of the whole file, whatever part of it is used.

    Args:
        sequence_length: Characters predicted per window.
        max_characters: Use only the first so many characters, in the order of the file (the last role is cut).
        train_fraction: Share of each role's characters that is trained on.

    Raises:
        ValueError: If an argument is out of range, or if no window fits into one of the two parts.
    """
    if sequence_length < 1:
        raise ValueError(f"sequence_length must be at least 1, got {sequence_length}.")
    if max_characters is not None and max_characters < 1:
        raise ValueError(f"max_characters must be at least 1, or None for all of the text; got {max_characters}.")
    if not 0 < train_fraction < 1:
        raise ValueError(f"train_fraction must lie strictly between 0 and 1, got {train_fraction}.")
    roles = load_shakespeare_roles()
    vocabulary = "".join(sorted(set().union(*roles.values())))
    parts: tuple[list[tuple[int, Codes]], list[tuple[int, Codes]]] = ([], [])
    for number, codes in enumerate(_encode(list(roles.values()), vocabulary, max_characters)):
        cut = int(len(codes) * train_fraction)
        for part, piece in zip(parts, (codes[:cut], codes[cut:]), strict=True):
            if len(piece) > sequence_length:
                part.append((number, piece))
    if not all(parts):
        raise ValueError(
            f"No role has {sequence_length + 1} characters in both parts with sequence_length={sequence_length}, "
            f"max_characters={max_characters}, train_fraction={train_fraction}. Shorten sequence_length or raise "
            "max_characters."
        )
    train, validation = (_windows(part, sequence_length, list(roles)) for part in parts)
    return ShakespeareSplits(train, validation, vocabulary)


def _encode(texts: Sequence[str], vocabulary: str, max_characters: int | None) -> Iterator[Codes]:
    """Yield each role's text as indices into the vocabulary until the characters are used up."""
    alphabet = np.frombuffer(vocabulary.encode("utf-32-le"), dtype=np.uint32)
    left = sum(map(len, texts)) if max_characters is None else max_characters
    for text in texts:
        if left <= 0:
            return
        points = np.frombuffer(text[:left].encode("utf-32-le"), dtype=np.uint32)
        left -= len(points)
        yield np.searchsorted(alphabet, points).astype(np.uint8)


def _windows(pieces: list[tuple[int, Codes]], length: int, names: list[str]) -> CharacterWindows:
    """Cut windows that overlap in one character only: the last target of one is the first input of the next."""
    cut = [np.lib.stride_tricks.sliding_window_view(codes, length + 1)[::length] for _, codes in pieces]
    groups = np.repeat([number for number, _ in pieces], [len(windows) for windows in cut])
    return CharacterWindows(torch.from_numpy(np.concatenate(cut)), torch.from_numpy(groups), names)
