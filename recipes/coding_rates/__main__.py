"""Measure the slopes: ``python -m recipes.coding_rates``."""

from __future__ import annotations

import sys

from recipes.coding_rates.report import write_report
from recipes.coding_rates.running import Result, execute
from recipes.coding_rates.settings import PROBLEMS, Study
from recipes.studies import Results, read_command, run_missing


def main(arguments: list[str] | None = None) -> int:
    """Make the runs that are missing, write figure and report, print the tables."""
    command = read_command("coding_rates", "Rates of convergence of gradient coding, beside SGD.", Study, arguments)
    study = command.study
    runs = [run for p in PROBLEMS for s in study.schemes for seed in study.seeds for run in study.runs(p, s, seed)]
    results = run_missing(
        runs,
        Results(command.output, Result),
        execute,
        lambda result: f"{result.errors[-1]:.3g}, {result.wall_seconds:.1f} s",
        jobs=command.jobs,
    )
    print(f"\n{write_report(study, results, command.output, command.text)}\nReport: {command.output / 'report.md'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
