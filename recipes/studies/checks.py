"""Checks that the studies have in common."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

__all__ = ["check_numbers", "check_seeds"]


def check_numbers(
    arguments: Mapping[str, float | Sequence[float]],
    *,
    above: float | None = None,
    least: float | None = None,
    most: float | None = None,
) -> None:
    """Refuse numbers that are not finite or not in a range.

    Args:
        arguments: By name, a number or several; an empty sequence is refused, too.
        above: All must be larger than this.
        least: All must be as large as this.
        most: None may be larger than this.

    Raises:
        ValueError: With the name, what was given, and what is allowed.

    Example:
        >>> check_numbers({"steps": [0.5, 0.0]}, above=0)
        Traceback (most recent call last):
        ValueError: steps must be above 0, got [0.5, 0.0]
    """
    limits = {"above": above, "at least": least, "at most": most}
    allowed = " and ".join(f"{word} {limit:g}" for word, limit in limits.items() if limit is not None) or "finite"
    for name, given in arguments.items():
        values = given if isinstance(given, Sequence) else [given]
        if not values:
            raise ValueError(f"{name} is empty: give at least one number")
        if not all(map(math.isfinite, values)):
            raise ValueError(f"{name} must be finite{'' if allowed == 'finite' else f' and {allowed}'}, got {given}")
        for value in values:
            inside = (above is None or value > above) and (least is None or value >= least)
            if not inside or (most is not None and value > most):
                raise ValueError(f"{name} must be {allowed}, got {given}")


def check_seeds(seeds: Sequence[int], tuning_seeds: Sequence[int] = ()) -> None:
    """Refuse seeds that are negative or given twice, and reporting what was tuned on.

    Raises:
        ValueError: With the seeds.

    Example:
        >>> check_seeds([0, 1], [1])
        Traceback (most recent call last):
        ValueError: seeds [1] would be tuned on and reported: use others for one of the two
    """
    for name, given in (("seeds", seeds), ("tuning_seeds", tuning_seeds)):
        if len(set(given)) != len(given) or any(seed < 0 for seed in given):
            raise ValueError(f"{name} must be different numbers, 0 or more; got {list(given)}")
    shared = sorted(set(seeds) & set(tuning_seeds))
    if shared:
        raise ValueError(f"seeds {shared} would be tuned on and reported: use others for one of the two")
