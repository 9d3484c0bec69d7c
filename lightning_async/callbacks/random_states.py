"""Random generators that somebody's objects hold, however deep, and their states."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from types import BuiltinMethodType, FunctionType, MethodType, ModuleType
from typing import Any, TypeAlias
from weakref import ProxyTypes

import numpy as np
import torch
from torch import Tensor

from lightning_async.data.seeding import GENERATORS

RandomGenerator: TypeAlias = (
    torch.Generator | np.random.Generator | np.random.BitGenerator | np.random.RandomState | random.Random
)

_GENERATORS = (*GENERATORS, np.random.BitGenerator)
_ATOMS = (Tensor, np.ndarray, str, bytes, bytearray, int, float, complex, type(None), type, ModuleType)
_LARGEST_CONTAINER = 10_000


def random_generators(owners: Iterable[object], ignore: Iterable[object] = ()) -> list[RandomGenerator]:
    """The random generators that can be reached from objects, each one once.

    Followed are attributes (of instances and of their classes), items of containers, and what functions enclose, have
    as defaults or name in their module. Containers of more than 10,000 items are taken for data and not looked into.

    Args:
        owners: where to begin.
        ignore: objects that are not looked into.

    Example:
        >>> from torch.utils.data import Subset
        >>> class Noisy:
        ...     def __init__(self):
        ...         self.transforms = [np.random.default_rng(0)]
        >>> len(random_generators([Subset(Noisy(), [0, 1])]))
        1
    """
    found: list[RandomGenerator] = []
    # Objects are kept, not their ids alone: a temporary one (a bound method) would give its id to another.
    seen: dict[int, object] = {id(value): value for value in ignore}
    left = deque(owners)
    while left:
        value = left.popleft()
        if id(value) in seen or type(value) in ProxyTypes or isinstance(value, _ATOMS):
            continue
        seen[id(value)] = value
        if isinstance(value, _GENERATORS):
            if not isinstance(value, random.SystemRandom):  # has no state
                found.append(value)
            continue
        left.extend(_held(value))
        for kind in type(value).__mro__:
            if id(kind) not in seen:
                seen[id(kind)] = kind
                left.extend(vars(kind).values())
    return found


@contextmanager
def kept_states(generators: Sequence[RandomGenerator]) -> Iterator[None]:
    """Put the states of generators back on the way out.

    Example:
        >>> rng = random.Random(0)
        >>> with kept_states([rng]):
        ...     first = rng.random()
        >>> rng.random() == first
        True
    """
    states = [_state(generator) for generator in generators]
    try:
        yield
    finally:
        for generator, state in zip(generators, states, strict=True):
            _set_state(generator, state)


def _held(value: object) -> Iterator[object]:
    """What an object holds directly."""
    if isinstance(value, FunctionType):
        yield from (cell.cell_contents for cell in value.__closure__ or () if _is_filled(cell))
        yield from value.__defaults__ or ()
        yield from (value.__kwdefaults__ or {}).values()
        # Of the names in its module only generators themselves: other names lead everywhere.
        named = (value.__globals__.get(name) for name in value.__code__.co_names)
        yield from (item for item in named if isinstance(item, _GENERATORS))
    elif isinstance(value, MethodType):
        yield from (value.__self__, value.__func__)
    elif isinstance(value, BuiltinMethodType):
        yield value.__self__
    elif isinstance(value, (staticmethod, classmethod)):
        yield value.__func__
    elif isinstance(value, partial):
        yield from (value.func, *value.args, *value.keywords.values())
    elif isinstance(value, (dict, list, tuple, deque, set, frozenset)) and len(value) <= _LARGEST_CONTAINER:
        yield from list(value.values() if isinstance(value, dict) else value)
    yield from list(getattr(value, "__dict__", {}).values())
    for kind in type(value).__mro__:
        slots = vars(kind).get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            yield getattr(value, name, None)


def _is_filled(cell: Any) -> bool:
    try:
        cell.cell_contents  # noqa: B018  raises if the variable has no value yet
    except ValueError:
        return False
    return True


def _state(generator: RandomGenerator) -> Any:
    if isinstance(generator, np.random.Generator):
        return generator.bit_generator.state
    if isinstance(generator, np.random.BitGenerator):
        return generator.state
    if isinstance(generator, np.random.RandomState):
        return generator.get_state(legacy=False)
    if isinstance(generator, random.Random):
        return generator.getstate()
    return generator.get_state()


def _set_state(generator: RandomGenerator, state: Any) -> None:
    if isinstance(generator, np.random.Generator):
        generator.bit_generator.state = state
    elif isinstance(generator, np.random.BitGenerator):
        generator.state = state
    elif isinstance(generator, np.random.RandomState):
        generator.set_state(state)
    elif isinstance(generator, random.Random):
        generator.setstate(state)
    else:
        generator.set_state(state)
