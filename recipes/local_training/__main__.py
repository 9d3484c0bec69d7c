"""Local training on a9a: ``python -m recipes.local_training step_counting | factorial | drift``."""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import torch
from jsonargparse import ArgumentParser, Namespace
from rich.console import Console
from rich.table import Table

from lightning_async.cli.compare.results import write_atomically
from recipes.local_training.drift import Drift
from recipes.local_training.factorial import Factorial
from recipes.local_training.figures import write_figure
from recipes.local_training.running import Task, execute, stored_cell
from recipes.local_training.step_counting import StepCounting
from recipes.local_training.tables import cell_text, csv_table, markdown_tables
from recipes.studies import Results, checked, folder, jobs, run_missing

CONFIGS = Path(__file__).parents[2] / "configs" / "local_training"
SEEDS = range(5)


def step_counting() -> None:
    """Print the times of the three variants, and their ratios beside the predicted ones; no files."""
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


def factorial(study: Factorial, output: Path, jobs: int) -> None:
    """Time to a target, every variant under every condition."""
    _measure(study, output, jobs, lambda value: f"{value:.0f}", f"time to {study.target:g}")


def drift(study: Drift, output: Path, jobs: int) -> None:
    """Gap that is left at the end, on data that are split by label or not, in units of 0.001."""
    _measure(study, output, jobs, lambda value: f"{1e3 * value:.2f}", "objective above its minimum")


def _measure(study: Factorial | Drift, output: Path, jobs: int, number: Callable[[float], str], label: str) -> None:
    """Measure what cells are missing, print the tables, and write them, a figure and one line per run to a folder."""
    tasks = [Task(study, setting) for setting in study.settings()]
    stored = Results(output, stored_cell)
    found = run_missing(tasks, stored, execute, lambda cell: cell_text(cell, number), jobs=jobs, what="cells")
    cells = [found[task.key] for task in tasks]
    tables = markdown_tables(cells, number)
    write_atomically(output / "tables.md", tables)
    write_atomically(output / "results.csv", csv_table(cells))
    write_figure(cells, label, output / "results.png")
    Console().print(tables, highlight=False, markup=False, soft_wrap=True)


def main(arguments: list[str] | None = None) -> None:
    """Run one of the studies."""
    torch.set_num_threads(1)
    parser = ArgumentParser(prog="python -m recipes.local_training", description="Local training on a9a.")
    commands = parser.add_subcommands(dest="study")
    commands.add_subcommand("step_counting", ArgumentParser(description=step_counting.__doc__))
    commands.add_subcommand("factorial", _settings(Factorial, factorial.__doc__, "a9a"))
    commands.add_subcommand("drift", _settings(Drift, drift.__doc__, "a9a_drift"))
    given = parser.parse_args(sys.argv[1:] if arguments is None else arguments)
    if given.study == "step_counting":
        step_counting()
        return
    chosen = given[given.study]
    at_a_time = jobs(parser, chosen.jobs)
    if given.study == "factorial":
        study = checked(parser, lambda: Factorial(**_arguments(Factorial, chosen)))
        factorial(study, folder(parser, chosen.output), at_a_time)
    else:
        drift(checked(parser, lambda: Drift(**_arguments(Drift, chosen))), folder(parser, chosen.output), at_a_time)


def _settings(study: type[Factorial | Drift], description: str | None, name: str) -> ArgumentParser:
    parser = ArgumentParser(description=description, default_config_files=[str(CONFIGS / f"{name}.yaml")])
    parser.add_argument("--config", action="config", help=f"study; default configs/local_training/{name}.yaml")
    parser.add_class_arguments(study)
    parser.add_argument("--output", type=Path, default=Path("outputs/local_training") / name, help="folder")
    parser.add_argument("--jobs", type=int, default=1, help="cells at a time")
    return parser


def _arguments(study: type[Factorial | Drift], chosen: Namespace) -> dict[str, Any]:
    return {field.name: chosen[field.name] for field in fields(study)}


def _with_error(values: list[float], digits: int) -> str:
    error = statistics.stdev(values) / len(values) ** 0.5
    return f"{statistics.mean(values):.{digits}f} ± {error:.{digits}f}"


if __name__ == "__main__":
    main()
