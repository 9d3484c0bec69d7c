"""Local training on a9a: ``python -m recipes.local_training step_counting | factorial``."""

from __future__ import annotations

import statistics
import sys
from dataclasses import fields
from pathlib import Path

import torch
from jsonargparse import ArgumentParser
from rich.console import Console
from rich.progress import track
from rich.table import Table

from recipes.local_training.factorial import Factorial
from recipes.local_training.step_counting import StepCounting
from recipes.local_training.tables import csv_table, markdown_tables

CONFIG = Path(__file__).parents[2] / "configs" / "local_training" / "a9a.yaml"
SEEDS = range(5)


def step_counting() -> None:
    """Print the times of the three variants, and their ratios beside the predicted ones: about 10 seconds."""
    study = StepCounting()
    times = {name: [study.time(name, seed) for seed in SEEDS] for name in study.predicted}
    title = f"a9a: time to {study.target:g}, mean and standard error of {len(SEEDS)} seeds"
    table = Table(title=title, caption=repr(study))
    for column in ("variant", "time to target", "over corrected", "step counting"):
        table.add_column(column, justify="left" if column == "variant" else "right")
    for name, predicted in study.predicted.items():
        ratios = [mine / best for mine, best in zip(times[name], times["corrected"], strict=True)]
        table.add_row(name, _with_error(times[name], 1), _with_error(ratios, 2), f"{predicted:.2f}")
    Console().print(table)


def factorial(study: Factorial, output: Path) -> None:
    """Measure every cell, print the tables, and write them and one line per run to a folder: some minutes."""
    console = Console()
    settings = study.settings()
    cells = [study.measure(setting) for setting in track(settings, "cells", console=console)]
    output.mkdir(parents=True, exist_ok=True)
    (output / "tables.md").write_text(markdown_tables(cells))
    (output / "results.csv").write_text(csv_table(cells))
    console.print(markdown_tables(cells), highlight=False, markup=False, soft_wrap=True)


def main(arguments: list[str] | None = None) -> None:
    """Run one of the two studies."""
    torch.set_num_threads(1)
    parser = ArgumentParser(prog="python -m recipes.local_training", description="Local training on a9a.")
    commands = parser.add_subcommands(dest="study")
    commands.add_subcommand("step_counting", ArgumentParser(description=step_counting.__doc__))
    settings = ArgumentParser(description=factorial.__doc__, default_config_files=[str(CONFIG)])
    settings.add_argument("--config", action="config", help=f"default {CONFIG.name}")
    settings.add_class_arguments(Factorial)
    settings.add_argument("--output", type=Path, default=Path("outputs/local_training/a9a"), help="folder")
    commands.add_subcommand("factorial", settings)
    given = parser.parse_args(sys.argv[1:] if arguments is None else arguments)
    if given.study == "step_counting":
        step_counting()
        return
    chosen = given.factorial
    factorial(Factorial(**{field.name: chosen[field.name] for field in fields(Factorial)}), Path(chosen.output))


def _with_error(values: list[float], digits: int) -> str:
    error = statistics.stdev(values) / len(values) ** 0.5
    return f"{statistics.mean(values):.{digits}f} ± {error:.{digits}f}"


if __name__ == "__main__":
    main()
