"""Step counting on a9a, measured: ``python -m recipes.local_training``, about 10 seconds."""

from __future__ import annotations

import statistics

import torch
from rich.console import Console
from rich.table import Table

from recipes.local_training.step_counting import StepCounting

SEEDS = range(5)


def main() -> None:
    """Print the times of the three variants, and their ratios beside the predicted ones."""
    torch.set_num_threads(1)
    study = StepCounting()
    times = {name: [study.time_to_target(name, seed) for seed in SEEDS] for name in study.predicted}
    table = Table(
        title=f"a9a: time to {study.target:g}, mean and standard error of {len(SEEDS)} seeds", caption=repr(study)
    )
    for column in ("variant", "time to target", "over corrected", "step counting"):
        table.add_column(column, justify="left" if column == "variant" else "right")
    for name, predicted in study.predicted.items():
        ratios = [mine / best for mine, best in zip(times[name], times["corrected"], strict=True)]
        table.add_row(name, _with_error(times[name], 1), _with_error(ratios, 2), f"{predicted:.2f}")
    Console().print(table)


def _with_error(values: list[float], digits: int) -> str:
    error = statistics.stdev(values) / len(values) ** 0.5
    return f"{statistics.mean(values):.{digits}f} ± {error:.{digits}f}"


if __name__ == "__main__":
    main()
