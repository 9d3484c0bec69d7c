"""Measure the slopes: ``python -m recipes.coding_rates``."""

from __future__ import annotations

import sys
from pathlib import Path

from jsonargparse import ArgumentParser

from recipes.coding_rates.report import write_report
from recipes.coding_rates.running import Result, execute
from recipes.coding_rates.settings import PROBLEMS, Study
from recipes.studies import Results, checked, folder, jobs, run_missing


def main(arguments: list[str] | None = None) -> int:
    """Make the runs that are missing, write figure and report, print the tables."""
    parser = ArgumentParser(
        prog="python -m recipes.coding_rates", description="Rates of convergence of gradient coding, beside SGD."
    )
    parser.add_argument("--study", type=Study, default=Study(), help="what is run")
    parser.add_argument("--output", type=Path, default=Path("outputs/coding_rates"), help="folder of runs and report")
    parser.add_argument("--jobs", type=int, default=1, help="runs at a time")
    given = sys.argv[1:] if arguments is None else arguments
    parsed = parser.parse_args(given)
    at_a_time = jobs(parser, parsed.jobs)
    instantiate = getattr(parser, "instantiate", None) or parser.instantiate_classes  # renamed in jsonargparse 4.49
    study: Study = checked(parser, lambda: instantiate(parsed).study)
    output = folder(parser, parsed.output)
    runs = [run for p in PROBLEMS for s in study.schemes for seed in study.seeds for run in study.runs(p, s, seed)]
    results = run_missing(
        runs,
        Results(output, Result),
        execute,
        lambda result: f"{result.errors[-1]:.3g}, {result.wall_seconds:.1f} s",
        jobs=at_a_time,
    )
    command = " ".join(["python -m recipes.coding_rates", *given])
    print(f"\n{write_report(study, results, output, command)}\n\nReport: {output / 'report.md'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
