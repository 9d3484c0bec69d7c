"""What the studies on a9a have in common: their cells, and a cell's result."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from recipes.local_training.logistic import VARIANTS, Setting, Variant

__all__ = ["Cell", "variants"]


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
