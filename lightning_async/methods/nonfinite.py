"""What becomes of a gradient that is NaN or infinite."""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

from lightning_async.arguments import choice

OnNonFinite: TypeAlias = Literal["discard", "raise"]
"""Whether such a gradient is left out, or stops the run."""


class NonFiniteGradientError(RuntimeError):
    """A gradient is NaN or infinite, and `on_nonfinite="raise"` was asked for."""


def checked_on_nonfinite(value: OnNonFinite) -> OnNonFinite:
    """`on_nonfinite` if it is one of the two.

    Raises:
        TypeError: if it is not a string.
        ValueError: if it is neither.
    """
    return choice("on_nonfinite", value, get_args(OnNonFinite))
