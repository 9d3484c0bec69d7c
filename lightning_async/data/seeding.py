"""Randomness of loading: seeded for a moment, and the surroundings left as they were."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

GENERATORS = (torch.Generator, np.random.Generator, np.random.RandomState, random.Random)
"""What draws at random and can be seeded."""

_legacy_numpy: Any = np.random.mtrand._rand  # what the functions of np.random draw from
_idle_sources: list[Any] = []  # numpy generators that no `seeded` block uses now


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Seed torch (CPU), numpy's global generator and `random`; put back their states on the way out.

    States are exchanged and not saved where that is possible, since this surrounds every mini-batch.

    Args:
        seed: in [0, 2^63).

    Example:
        >>> with seeded(7):
        ...     first = torch.rand(()).item(), np.random.rand(), random.random()
        >>> with seeded(7):
        ...     again = torch.rand(()).item(), np.random.rand(), random.random()
        >>> first == again
        True
    """
    generator = torch.default_generator
    torch_state, python_state = generator.get_state(), random.getstate()
    bit_generator, gauss = _legacy_numpy._bit_generator, _cached_gauss()
    generator.manual_seed(seed)
    random.seed(seed)
    source = _idle_sources.pop() if _idle_sources else np.random.MT19937(0)
    source._legacy_seeding([seed & 0xFFFFFFFF, seed >> 32])  # some 20 times faster than a new generator
    np.random.set_bit_generator(source)  # type: ignore[attr-defined]
    try:
        yield
    finally:
        generator.set_state(torch_state)
        random.setstate(python_state)
        np.random.set_bit_generator(bit_generator)  # type: ignore[attr-defined]
        if gauss["has_gauss"]:
            _restore_gauss(gauss)
        _idle_sources.append(source)


def reseed(generators: list[Any], seed: int) -> None:
    """Seed generators that somebody owns: of torch, of numpy (new or legacy), of `random`.

    Args:
        generators: what `own_generators` has found.
        seed: in [0, 2^63).
    """
    for generator in generators:
        if isinstance(generator, torch.Generator):
            generator.manual_seed(seed)
        elif isinstance(generator, np.random.Generator):
            generator.bit_generator.state = type(generator.bit_generator)(seed).state
        elif isinstance(generator, np.random.RandomState):
            generator.seed([seed & 0xFFFFFFFF, seed >> 32])
        else:
            generator.seed(seed)


def own_generators(owner: object) -> list[Any]:
    """The random generators that an object holds as attributes."""
    return [value for value in getattr(owner, "__dict__", {}).values() if isinstance(value, GENERATORS)]


class _NoState:
    """Stands in for a bit generator whose state nobody wants to read or write: reading it takes longer than a job."""

    @property
    def state(self) -> dict[str, Any]:
        return {"bit_generator": "none", "state": None}

    @state.setter
    def state(self, value: Any) -> None:
        pass


_no_state = _NoState()


def _cached_gauss() -> dict[str, Any]:
    """The second normal number of a pair, which numpy keeps for the next call, and forgets with the bit generator."""
    bit_generator, _legacy_numpy._bit_generator = _legacy_numpy._bit_generator, _no_state
    try:
        state: dict[str, Any] = _legacy_numpy.get_state(legacy=False)
    finally:
        _legacy_numpy._bit_generator = bit_generator
    return state


def _restore_gauss(state: dict[str, Any]) -> None:
    bit_generator, _legacy_numpy._bit_generator = _legacy_numpy._bit_generator, _no_state
    try:
        _legacy_numpy.set_state(state)
    finally:
        _legacy_numpy._bit_generator = bit_generator
