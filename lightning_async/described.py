"""The repr of a model or a method: its arguments in full.

It is a fingerprint: a resumed run compares it to know that it continues with the same worker times, method and data.
"""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable
from functools import partial

import numpy as np

_SHOWN_IN_FULL = 32


class Described:
    """Has the repr, equality and hash of its constructor arguments, which are kept in attributes of their names."""

    def __repr__(self) -> str:
        names = inspect.signature(type(self)).parameters
        arguments = ", ".join(f"{name}={describe(getattr(self, name))}" for name in names)
        return f"{type(self).__name__}({arguments})"

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and repr(self) == repr(other)

    def __hash__(self) -> int:
        return hash(repr(self))


def describe(value: object) -> str:
    """The same text for equal values, different text for different ones, in every process.

    Long sequences and the code of functions that cannot be imported by name enter through a digest.
    """
    if isinstance(value, np.ndarray):
        return f"array({describe(value.tolist())})"
    if isinstance(value, (list, tuple)):
        items = [describe(item) for item in value]
        if len(items) > _SHOWN_IN_FULL:
            shown = f"{items[0]}, {items[1]}, ..., {items[-1]}; {len(items)} values, sha256 {digest(', '.join(items))}"
        else:
            shown = ", ".join(items) + ("," if len(items) == 1 and isinstance(value, tuple) else "")
        return f"[{shown}]" if isinstance(value, list) else f"({shown})"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{describe(key)}: {describe(item)}" for key, item in value.items()) + "}"
    if inspect.isfunction(value) or inspect.ismethod(value):
        return _describe_function(value)
    if isinstance(value, partial):
        return f"partial({describe(value.func)}, {describe(value.args)}, {describe(value.keywords)})"
    if type(value).__repr__ is object.__repr__:  # it would show an address in memory, another one in every process
        return f"{type(value).__module__}.{type(value).__qualname__}({describe(vars(value))})"
    return repr(value)


def digest(text: str) -> str:
    """Sixteen hexadecimal digits that stand for `text`."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _describe_function(function: Callable[..., object]) -> str:
    name = f"{function.__module__}.{function.__qualname__}"
    if inspect.ismethod(function):
        return f"{name} of {describe(function.__self__)}"
    if "<" not in name:
        return name
    # A lambda or a function made by another one: its name says nothing about what it does.
    code = function.__code__
    constants = [constant for constant in code.co_consts if not inspect.iscode(constant)]
    enclosed = [cell.cell_contents for cell in function.__closure__ or ()]
    captured = [*constants, *enclosed, *(function.__defaults__ or ())]
    return f"{name} {digest(code.co_code.hex() + repr(code.co_names) + describe(captured))}"
