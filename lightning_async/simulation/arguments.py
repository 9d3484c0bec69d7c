"""Constructor arguments that there are for each worker."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import SupportsFloat, SupportsIndex, cast

from lightning_async.arguments import count, real, reals, shown


def worker_count(num_workers: SupportsIndex) -> int:
    """A number of workers, each of which has an entry of its own in a sequence.

    Raises:
        TypeError: if it is not an integer.
        ValueError: if it is below 1, or above what a sequence can hold.
    """
    number = count("num_workers", num_workers)
    if number > sys.maxsize:
        raise ValueError(f"num_workers must be at most {sys.maxsize}, got {shown(number)}")
    return number


def per_worker(
    name: str,
    values: float | Sequence[float],
    num_workers: int,
    *,
    at_least: float | None = None,
    above: float | None = None,
) -> tuple[float, ...]:
    """One finite float for each worker: `values` itself, or the same number for all.

    Raises:
        TypeError: if they are not numbers.
        ValueError: if there are not that many, or one is out of bounds.
    """
    if isinstance(values, SupportsFloat) and not hasattr(values, "__len__"):
        return (real(name, values, at_least=at_least, above=above),) * num_workers
    numbers = reals(name, cast("Sequence[float]", values), at_least=at_least, above=above)
    if len(numbers) != num_workers:
        raise ValueError(
            f"{name} has {len(numbers)} values for {num_workers} workers; give one number for each worker, or a single "
            f"number for all of them"
        )
    return numbers
