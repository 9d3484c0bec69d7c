"""Where local training ends when the data of the workers differ: the gap that drift leaves."""

from __future__ import annotations

import itertools
import math
import statistics
from dataclasses import dataclass, field

from recipes.a9a.objective import MINIMUM
from recipes.local_training.cells import Cell, variants
from recipes.local_training.logistic import Setting, objectives
from recipes.studies import check_numbers, check_seeds

__all__ = ["Drift"]


@dataclass(frozen=True)
class Drift:
    """{blocking, overwrite, corrected} x p, and never communicating, on data that are split by label and that are not.

    What counts is the objective of the average model above its minimum, as a mean over the last quarter of the run.
    Step sizes are tuned for it in each cell.

    Args:
        sparsity: fractions p > 0 of the coordinates that are sent.
        travel: times of a message.
        window: local budget, in logical time.
        skewed: whether the data are split by label.
        lr: step sizes to choose from.
        tuning_seeds: seeds on which they are chosen.
        seeds: other seeds, which are reported.
        time: logical time of a run.
        workers: number of workers, all equal.

    Raises:
        ValueError: for a number that is not allowed, or seeds that would be tuned on and reported.
    """

    sparsity: list[float] = field(default_factory=lambda: [1.0, 0.1, 0.01, 0.001])
    travel: list[float] = field(default_factory=lambda: [4.0, 16.0])
    window: float = 4.0
    skewed: list[bool] = field(default_factory=lambda: [False, True])
    lr: list[float] = field(default_factory=lambda: [0.015625, 0.0625, 0.25, 1.0])
    tuning_seeds: list[int] = field(default_factory=lambda: [100])
    seeds: list[int] = field(default_factory=lambda: [0, 1, 2])
    time: float = 400.0
    workers: int = 8

    def __post_init__(self) -> None:
        check_seeds(self.seeds, self.tuning_seeds)
        check_numbers({"seeds": self.seeds, "tuning_seeds": self.tuning_seeds}, least=0)
        check_numbers({"sparsity": self.sparsity}, above=0, most=1)
        check_numbers({"window": self.window, "lr": self.lr, "time": self.time}, above=0)
        check_numbers({"travel": self.travel}, least=0)
        check_numbers({"workers": self.workers}, least=2)
        if not self.skewed:
            raise ValueError("skewed is empty: give false, true or both")

    def settings(self) -> list[Setting]:
        """All cells, condition by condition; the control comes last in each."""
        return [
            Setting(variant, p, self.window, travel, workers=self.workers, skewed=skewed)
            for skewed, travel in itertools.product(self.skewed, self.travel)
            for variant, p in variants(self.sparsity)
        ]

    def measure(self, setting: Setting) -> Cell:
        """Tune the step size of one cell, and run the reported seeds with it."""
        lr = min(self.lr, key=lambda lr: sum(self.gap(setting, lr, seed) for seed in self.tuning_seeds))
        return Cell(setting, lr, tuple(self.gap(setting, lr, seed) for seed in self.seeds))

    def gap(self, setting: Setting, lr: float, seed: int) -> float:
        """Mean of the objective over the rounds that end in the last quarter of the run, less the minimum."""
        late = []
        for time, value in objectives(setting, lr, seed):
            if not math.isfinite(value):
                return math.inf
            if time >= 0.75 * self.time:
                late.append(value)
            if time >= self.time:
                break
        return statistics.fmean(late) - MINIMUM
