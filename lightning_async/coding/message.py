"""What a worker sends: packed indices and the scales of its buckets."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor


@dataclass(frozen=True)
class Message:
    """A quantised vector as it crosses the wire.

    Attributes:
        payload: uint8 vector, ceil(bits * length / 8) bytes of packed indices.
        scales: The bucket scales, (buckets, scales a bucket).
        bits: Bits a coordinate.
        length: Number of coordinates.
        seed: Seed of the dither. Both sides derive it from the round and the worker, so it costs nothing.
        dtype: Float type of the decoded vector.
    """

    payload: Tensor
    scales: Tensor
    bits: int
    length: int
    seed: int
    dtype: torch.dtype

    @property
    def num_bytes(self) -> int:
        """Bytes on the wire: payload and scales."""
        return self.payload.numel() + self.scales.numel() * self.scales.element_size()


def message_seed(seed: int, step: int, worker: int) -> int:
    """Seed of one worker's message in one round; no two workers share a dither.

    Args:
        seed: Seed of the run.
        step: Round (server update).
        worker: Index of the worker.

    Example:
        >>> message_seed(0, 3, 1) != message_seed(0, 3, 2)
        True
    """
    return int(np.random.SeedSequence((seed, step, worker)).generate_state(1)[0])
