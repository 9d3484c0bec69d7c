"""Checks of arguments, said once: the wrong kind is a TypeError, a value out of range a ValueError.

Each takes the name and the value of an argument, returns the value as the plain type that it stands for, and refuses it
with its name, what is allowed, and what was given. Numbers of numpy are numbers; True and False are not.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping, Sequence, Set
from typing import SupportsFloat, SupportsIndex, TypeVar, cast

import numpy as np
import numpy.typing as npt

__all__ = ["array", "boolean", "choice", "count", "probability", "random_seed", "real", "reals", "shown"]

T = TypeVar("T", bound=str)

_NO_NUMBERS = (bool, np.bool_, str, bytes, np.complexfloating)


def count(name: str, value: SupportsIndex, *, at_least: int = 1, at_most: int | None = None, note: str = "") -> int:
    """`value` as an integer within the bounds.

    Args:
        name: of the argument.
        value: what was given.
        at_least: the smallest that is allowed.
        at_most: the largest that is allowed; no limit if None.
        note: what else there is to say of what is allowed, such as ", or None for no limit".

    Raises:
        TypeError: if it is not an integer.
        ValueError: if it is out of bounds.

    Example:
        >>> count("batch", 0)
        Traceback (most recent call last):
        ValueError: batch must be at least 1, got 0
    """
    number = _integer(value)
    bounds = f"at least {at_least}" if at_most is None else f"from {at_least} to {at_most}"
    if number is None:
        of = "of " if at_most is None else ""
        raise TypeError(f"{name} must be an integer {of}{bounds}{note}, got {shown(value)}")
    if number < at_least or (at_most is not None and number > at_most):
        raise ValueError(f"{name} must be {bounds}{note}, got {shown(value)}")
    return number


def random_seed(value: SupportsIndex) -> int:
    """`value` as the seed of a random number generator: an integer of 64 bits.

    Raises:
        TypeError: if it is not an integer.
        ValueError: if it is negative or has more bits.
    """
    number = _integer(value)
    if number is not None and 0 <= number < 2**64:
        return number
    error = TypeError if number is None else ValueError
    raise error(f"seed must be an integer from 0 to 2**64 - 1, got {shown(value)}")


def real(
    name: str,
    value: SupportsFloat,
    *,
    at_least: float | None = None,
    above: float | None = None,
    at_most: float | None = None,
    below: float | None = None,
    finite: bool = True,
    note: str = "",
) -> float:
    """`value` as a float within the bounds; never NaN.

    Args:
        name: of the argument.
        value: what was given. An integer beyond the range of floats counts as infinite.
        at_least: the smallest that is allowed.
        above: what it must be larger than.
        at_most: the largest that is allowed.
        below: what it must be smaller than.
        finite: whether infinity is refused.
        note: what else there is to say of what is allowed.

    Raises:
        TypeError: if it is not a number.
        ValueError: if it is out of bounds.

    Example:
        >>> real("outer_momentum", 1, at_least=0, below=1)
        Traceback (most recent call last):
        ValueError: outer_momentum must be a number in [0, 1), got 1
    """
    number = _float(value)
    if (
        number is not None
        and not math.isnan(number)
        and not (finite and math.isinf(number))
        and (at_least is None or number >= at_least)
        and (above is None or number > above)
        and (at_most is None or number <= at_most)
        and (below is None or number < below)
    ):
        return number
    error = TypeError if number is None else ValueError
    raise error(f"{name} must be {_numbers(at_least, above, at_most, below, finite)}{note}, got {shown(value)}")


def probability(name: str, value: SupportsFloat, *, note: str = "") -> float:
    """`value` as a float in [0, 1].

    Raises:
        TypeError: if it is not a number.
        ValueError: if it is not in [0, 1].
    """
    return real(name, value, at_least=0.0, at_most=1.0, note=note)


def reals(
    name: str,
    values: Sequence[float] | npt.NDArray[np.float64],
    *,
    at_least: float | None = None,
    above: float | None = None,
) -> tuple[float, ...]:
    """`values` as a tuple of finite floats, each within the bounds of `real`; the error names the first that is not.

    Raises:
        TypeError: if they are not a sequence of numbers.
        ValueError: if one is out of bounds.

    Example:
        >>> reals("times", [1, 0.0], above=0.0)
        Traceback (most recent call last):
        ValueError: times[1] must be a finite number above 0, got 0.0
    """
    if (
        isinstance(values, (str, bytes, Mapping, Set))  # a set has no order
        or not hasattr(values, "__len__")
        or not hasattr(values, "__iter__")
        or getattr(values, "ndim", 1) == 0
    ):
        raise TypeError(f"{name} must be a sequence of numbers, got {values!r}")
    converted = None
    if isinstance(values, np.ndarray) or not any(isinstance(value, _NO_NUMBERS) for value in values):
        converted = _array(values)
    if converted is not None and converted.ndim == 1:
        fits = np.isfinite(converted)
        if at_least is not None:
            fits &= converted >= at_least
        if above is not None:
            fits &= converted > above
        if fits.all():
            return tuple(cast("list[float]", converted.tolist()))
    return tuple(real(f"{name}[{index}]", value, at_least=at_least, above=above) for index, value in enumerate(values))


def array(name: str, values: npt.ArrayLike, *, note: str = "") -> npt.NDArray[np.float64]:
    """`values` as an array of floats, of whatever shape.

    Raises:
        TypeError: if they are not numbers.

    Example:
        >>> array("p", ["0.5"])
        Traceback (most recent call last):
        TypeError: p must be a number or an array of numbers, got ['0.5']
    """
    converted = _array(values)
    if converted is None:
        raise TypeError(f"{name} must be a number or an array of numbers{note}, got {values!r}")
    return converted


def boolean(name: str, value: bool) -> bool:
    """`value` if it is True or False, and not merely something that counts as true.

    Raises:
        TypeError: if it is not.
    """
    if not isinstance(value, bool):
        raise TypeError(f"{name} must be True or False, got {shown(value)}")
    return value


def choice(name: str, value: T, allowed: Sequence[T], *, note: str = "") -> T:
    """`value` if it is one of the names that are allowed.

    Raises:
        TypeError: if it is not a string.
        ValueError: if it is not allowed.

    Example:
        >>> choice("rule", "skip", ("scale", "drop"))
        Traceback (most recent call last):
        ValueError: rule must be one of 'scale', 'drop', got 'skip'
    """
    if isinstance(value, str) and value in allowed:
        return value
    error = ValueError if isinstance(value, str) else TypeError
    raise error(f"{name} must be one of {', '.join(map(repr, allowed))}{note}, got {shown(value)}")


def shown(value: object) -> str:
    """What was given, as a message shows it."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, int) and abs(value) >= 10**100:  # Python refuses to print integers of thousands of digits
        return f"an integer of {value.bit_length()} bits"
    return repr(value)


def _integer(value: SupportsIndex) -> int | None:
    if isinstance(value, _NO_NUMBERS):
        return None
    try:
        return operator.index(value)
    except TypeError:
        return None


def _float(value: SupportsFloat) -> float | None:
    if isinstance(value, _NO_NUMBERS) or not isinstance(value, SupportsFloat):
        return None
    try:
        return float(value)
    except OverflowError:  # an integer beyond the range of floats
        return math.inf if value > 0 else -math.inf  # type: ignore[operator]
    except (TypeError, ValueError, RuntimeError):  # several numbers
        return None


def _array(values: object) -> npt.NDArray[np.float64] | None:
    try:
        given = np.asarray(values)
        kind = given.dtype.kind
        if kind == "O" and any(_float(value) is None for value in given.flat):
            return None
        return np.asarray(given, dtype=np.float64) if kind in "iufO" else None
    except (OverflowError, RuntimeError, TypeError, ValueError):
        return None


def _numbers(
    at_least: float | None, above: float | None, at_most: float | None, below: float | None, finite: bool
) -> str:
    low = f"[{at_least:g}" if at_least is not None else f"({above:g}" if above is not None else ""
    high = f"{at_most:g}]" if at_most is not None else f"{below:g})" if below is not None else ""
    if low and high:
        return f"a number in {low}, {high}"
    kind = "a finite number" if finite else "a number"
    if low:
        return f"{kind} of at least {at_least:g}" if at_least is not None else f"{kind} above {above:g}"
    if high:
        return f"{kind} of at most {at_most:g}" if at_most is not None else f"{kind} below {below:g}"
    return kind
