"""What the studies on a9a have in common: their cells, and a cell's result."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from recipes.local_training.logistic import VARIANTS, Setting, Variant

__all__ = ["Cell", "check_study", "variants"]


@dataclass(frozen=True)
class Cell:
    """One setting, measured.

    Args:
        setting: how replicas were trained; a sparsity of 0 is the control that never communicates.
        lr: the step size that was best on the tuning seeds.
        values: the result for each reported seed, infinite where there was none.
    """

    setting: Setting
    lr: float
    values: tuple[float, ...]

    @property
    def mean(self) -> float:
        """Mean over the seeds; infinite if one of them has no result."""
        return statistics.fmean(self.values)

    @property
    def deviation(self) -> float:
        """Standard deviation over the seeds."""
        return statistics.stdev(self.values) if len(self.values) > 1 and math.isfinite(self.mean) else math.nan

    def row(self) -> dict[str, object]:
        """As a line of a table."""
        return {**asdict(self.setting), "lr": self.lr, "mean": self.mean, "deviation": self.deviation}


def variants(sparsity: Sequence[float]) -> list[tuple[Variant, float]]:
    """All variants with all fractions, and last the control that never communicates."""
    return [*itertools.product(VARIANTS, sparsity), ("corrected", 0.0)]


def check_study(arguments: Mapping[str, object], seeds: Sequence[int], tuning_seeds: Sequence[int]) -> None:
    """Refuse a study without values for an argument, or one that reports what it was tuned on.

    Raises:
        ValueError: with the name of the argument, or the seeds.
    """
    for name, values in arguments.items():
        if isinstance(values, list) and not values:
            raise ValueError(f"{name} is an empty list: give at least one value")
    shared = set(seeds) & set(tuning_seeds)
    if shared:
        raise ValueError(f"seeds {sorted(shared)} would be tuned on and reported: use others for one of the two")
