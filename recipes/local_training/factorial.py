"""Every variant under every condition, each at its own best step size."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from recipes.a9a.objective import MINIMUM
from recipes.local_training.cells import Cell, variants
from recipes.local_training.logistic import Setting, time_to_target
from recipes.studies import check_numbers, check_seeds

__all__ = ["Factorial", "best"]


@dataclass(frozen=True)
class Factorial:
    """{blocking, overwrite, corrected} x p, and never communicating, under all combinations of the conditions.

    Step sizes are tuned for each cell: the smallest mean time to target over the tuning seeds.

    Args:
        sparsity: fractions p > 0 of the coordinates that are sent.
        window: local budgets, in logical time.
        travel: times of a message.
        slowdown: how much slower half of the workers are.
        lr: step sizes to choose from.
        tuning_seeds: seeds on which they are chosen.
        seeds: other seeds, which are reported.
        target: value of the training objective.
        max_time: logical time after which a run is given up.
        workers: number of workers.

    Raises:
        ValueError: for a number that is not allowed, or seeds that would be tuned on and reported.
    """

    sparsity: list[float] = field(default_factory=lambda: [1.0, 0.1, 0.01, 0.001])
    window: list[float] = field(default_factory=lambda: [4.0, 16.0])
    travel: list[float] = field(default_factory=lambda: [4.0, 16.0])
    slowdown: list[float] = field(default_factory=lambda: [1.0, 4.0])
    lr: list[float] = field(default_factory=lambda: [0.5, 1.0, 2.0, 4.0])
    tuning_seeds: list[int] = field(default_factory=lambda: [100, 101, 102])
    seeds: list[int] = field(default_factory=lambda: list(range(8)))
    target: float = 0.332
    max_time: float = 2_000.0
    workers: int = 8

    def __post_init__(self) -> None:
        check_seeds(self.seeds, self.tuning_seeds)
        check_numbers({"seeds": self.seeds, "tuning_seeds": self.tuning_seeds}, least=0)
        check_numbers({"sparsity": self.sparsity}, above=0, most=1)
        check_numbers({"window": self.window, "lr": self.lr, "max_time": self.max_time}, above=0)
        check_numbers({"travel": self.travel}, least=0)
        check_numbers({"slowdown": self.slowdown}, least=1)
        check_numbers({"target": self.target}, above=MINIMUM)
        check_numbers({"workers": self.workers}, least=2)

    def settings(self) -> list[Setting]:
        """All cells, condition by condition; the control comes last in each."""
        return [
            Setting(variant, p, window, travel, slowdown, self.workers)
            for slowdown, travel, window in itertools.product(self.slowdown, self.travel, self.window)
            for variant, p in variants(self.sparsity)
        ]

    def measure(self, setting: Setting) -> Cell:
        """Tune the step size of one cell, and run the reported seeds with it."""

        def time(lr: float, seed: int, max_time: float) -> float:
            return time_to_target(setting, lr, seed, self.target, max_time)

        lr = best(time, self.lr, self.tuning_seeds, self.max_time)
        return Cell(setting, lr, tuple(time(lr, seed, self.max_time) for seed in self.seeds))


def best(
    time: Callable[[float, int, float], float], candidates: Sequence[float], seeds: Sequence[int], max_time: float
) -> float:
    """The candidate with the smallest total time over the seeds; a candidate is given up once it cannot win.

    Args:
        time: of a candidate and a seed, infinite if it is more than the third argument.
        candidates: what to choose from; the first one if none arrives.
        seeds: all of them have to arrive.
        max_time: most time for one seed.
    """
    winner, least = candidates[0], math.inf
    for candidate in candidates:
        total = 0.0
        for seed in seeds:
            total += time(candidate, seed, min(max_time, least - total))
            if total >= least:
                break
        if total < least:
            winner, least = candidate, total
    return winner
