"""What a mistyped name may have meant."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def nearest(name: str, known: Iterable[str]) -> str:
    """Returns the part of an error message that names what is allowed, the closest name first.

    Example:
        >>> nearest("cliped_asgd", ["asgd", "clipped_asgd"])
        "did you mean 'clipped_asgd'? (known: asgd, clipped_asgd)"
    """
    names = sorted(known)
    listed = f"known: {', '.join(names) or 'none'}"
    close = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    return f"did you mean {close[0]!r}? ({listed})" if close else listed
