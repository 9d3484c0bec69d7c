"""Run the study: ``python -m recipes.quadratic --config configs/quadratic/reduced.yaml``."""

from __future__ import annotations

import itertools
import sys

from rich.console import Console

from recipes.quadratic.report import write_report
from recipes.quadratic.running import Result, execute
from recipes.quadratic.settings import Study
from recipes.quadratic.summary import chosen_point, reported_runs
from recipes.studies import Results, read_command, run_missing


def main(arguments: list[str] | None = None) -> int:
    """Search the grids, run the winners, write figure, table and report."""
    command = read_command(
        "quadratic", "Ringmaster and its rivals on Nesterov's quadratic.", Study, arguments, config="reduced"
    )
    study, stored = command.study, Results(command.output, Result)
    places = list(itertools.product(study.profiles, study.methods))
    searched = [run for at in places for runs in study.tuning_runs(*at).values() for run in runs]
    results = run_missing(searched, stored, execute, _describe, jobs=command.jobs, what="grids")
    points = {at: chosen_point(study, *at, results) for at in places}
    chosen = [run for at in places for run in reported_runs(study, *at, points[at]).values()]
    results |= run_missing(chosen, stored, execute, _describe, jobs=command.jobs, what="chosen")
    console = Console()
    console.print(write_report(study, results, command.output, command.text), highlight=False)
    console.print(f"Report: {command.output / 'report.md'}", highlight=False, soft_wrap=True)
    return 0


def _describe(result: Result) -> str:
    end = f"gap {result.gaps[-1]:.3g} at {result.times[-1]:.4g}"
    return f"{result.status}, {end}, {result.wall_seconds:.1f} s"


if __name__ == "__main__":
    sys.exit(main())
