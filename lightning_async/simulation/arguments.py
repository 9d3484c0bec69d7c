"""Constructor arguments of the models in this package: checked once, shown in full by `repr`.

The repr of a model is its fingerprint: a resumed run compares it to know that it continues under the same worker times.
"""

from __future__ import annotations

import hashlib
import inspect
import math
import operator
import sys
from collections.abc import Callable, Mapping, Sequence, Set
from functools import partial
from typing import SupportsFloat, SupportsIndex, cast

import numpy as np
import numpy.typing as npt

_SHOWN_IN_FULL = 32


class Described:
    """Has the repr, equality and hash of its constructor arguments, which are kept in attributes of their names."""

    def __repr__(self) -> str:
        names = list(inspect.signature(type(self).__init__).parameters)[1:]
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


def count(name: str, value: SupportsIndex) -> int:
    """`value` as an integer of at least 1."""
    try:
        number = operator.index(value)
    except TypeError:
        number = None
    if number is None or isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{name} must be an integer, got {value!r}")
    if number < 1:
        raise ValueError(f"{name} must be at least 1, got {number}")
    if number > sys.maxsize:
        raise ValueError(f"{name} must be at most {sys.maxsize}, got {_short(number)}")
    return number


def random_seed(value: SupportsIndex) -> int:
    """`value` as the seed of a random number generator: an integer of 64 bits."""
    try:
        number = operator.index(value)
    except TypeError:
        number = None
    if number is None or isinstance(value, (bool, np.bool_)):
        raise TypeError(f"seed must be an integer, got {value!r}")
    if not 0 <= number < 2**64:
        raise ValueError(f"seed must be an integer from 0 to 2**64 - 1, got {_short(number)}")
    return number


def _short(number: int) -> str:
    # Python refuses to print integers of thousands of digits.
    return str(number) if abs(number) < 10**100 else f"an integer of {number.bit_length()} bits"


def real(name: str, value: SupportsFloat, at_least: float = -math.inf, above: float = -math.inf) -> float:
    """`value` as a finite float, within the bounds."""
    if isinstance(value, (str, bool, np.bool_)) or not isinstance(value, SupportsFloat):
        raise TypeError(f"{name} must be a number, got {value!r}")
    try:
        number = float(value)
    except OverflowError:  # an integer beyond the range of floats
        number = math.inf if value > 0 else -math.inf  # type: ignore[operator]
    if not math.isfinite(number) or number < at_least or number <= above:
        bound = (
            f" of at least {at_least:g}" if at_least > -math.inf else f" above {above:g}" if above > -math.inf else ""
        )
        raise ValueError(f"{name} must be a finite number{bound}, got {number}")
    return number


def reals(name: str, values: Sequence[float] | npt.NDArray[np.float64], **bounds: float) -> tuple[float, ...]:
    """`values` as a tuple of finite floats, each within the bounds of `real`; the error names the first that is not."""
    if (
        isinstance(values, (str, bytes, Mapping, Set))  # a set has no order
        or not hasattr(values, "__len__")
        or not hasattr(values, "__iter__")
    ):
        raise TypeError(f"{name} must be a sequence of numbers, got {values!r}")
    if not isinstance(values, np.ndarray) or values.dtype.kind not in "iuf":
        for index, value in enumerate(values):
            if isinstance(value, (str, bytes, bool, np.bool_)):  # numpy would make numbers of them
                raise TypeError(f"{name}[{index}] must be a number, got {value!r}")
    try:
        array = np.asarray(values, dtype=np.float64)
    except (OverflowError, TypeError, ValueError):
        array = None
    if array is not None and array.ndim == 1:
        below = (array < bounds.get("at_least", -math.inf)) | (array <= bounds.get("above", -math.inf))
        if not (below | ~np.isfinite(array)).any():
            return tuple(cast("list[float]", array.tolist()))
    return tuple(real(f"{name}[{index}]", value, **bounds) for index, value in enumerate(values))


def per_worker(name: str, values: float | Sequence[float], num_workers: int, **bounds: float) -> tuple[float, ...]:
    """One float for each worker: `values` itself, or the same number for all."""
    if isinstance(values, SupportsFloat) and not hasattr(values, "__len__"):
        return (real(name, values, **bounds),) * num_workers
    numbers = reals(name, cast("Sequence[float]", values), **bounds)
    if len(numbers) != num_workers:
        raise ValueError(
            f"{name} has {len(numbers)} values for {num_workers} workers; give one number for each worker, or a single "
            f"number for all of them"
        )
    return numbers
