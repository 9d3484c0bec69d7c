"""Randomness of loading: seeded for a moment, and the surroundings left as they were."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch

_numpy_source = np.random.MT19937(0)


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Seed torch (CPU), numpy's global generator and `random`; put back their states on the way out.

    States are exchanged and not saved where that is possible, since this surrounds every mini-batch.

    Args:
        seed: in [0, 2^63).
    """
    generator = torch.default_generator
    torch_state, python_state = generator.get_state(), random.getstate()
    bit_generator = np.random.get_bit_generator()  # type: ignore[attr-defined]
    generator.manual_seed(seed)
    random.seed(seed)
    source = _numpy_source if bit_generator is not _numpy_source else np.random.MT19937(0)
    source._legacy_seeding([seed & 0xFFFFFFFF, seed >> 32])  # some 20 times faster than a new generator
    np.random.set_bit_generator(source)  # type: ignore[attr-defined]
    try:
        yield
    finally:
        generator.set_state(torch_state)
        random.setstate(python_state)
        np.random.set_bit_generator(bit_generator)  # type: ignore[attr-defined]
