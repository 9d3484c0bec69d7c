"""Run the study: ``python -m recipes.quadratic --config configs/quadratic/reduced.yaml``."""

from __future__ import annotations

import itertools
import sys
from pathlib import Path

from jsonargparse import ArgumentParser
from rich.console import Console

from recipes.quadratic.report import write_report
from recipes.quadratic.running import Result, execute
from recipes.quadratic.settings import Study
from recipes.quadratic.summary import chosen_point, reported_runs
from recipes.studies import Results, checked, folder, jobs, run_missing

DEFAULT = Path(__file__).parents[2] / "configs" / "quadratic" / "reduced.yaml"


def main(arguments: list[str] | None = None) -> int:
    """Search the grids, run the winners, write figure, table and report."""
    parser = ArgumentParser(
        prog="python -m recipes.quadratic", description="Ringmaster and its rivals on Nesterov's quadratic."
    )
    parser.add_argument("--config", action="config", help="study; default configs/quadratic/reduced.yaml")
    parser.add_argument("--study", type=Study, help="what is run")
    parser.add_argument("--output", type=Path, default=None, help="folder; default outputs/quadratic/<file name>")
    parser.add_argument("--jobs", type=int, default=1, help="runs at a time")
    given = sys.argv[1:] if arguments is None else arguments
    if not any(argument.startswith(("--config", "--help", "-h")) for argument in given):
        given = [f"--config={DEFAULT}", *given]
    parsed = parser.parse_args(given)
    at_a_time = jobs(parser, parsed.jobs)
    instantiate = getattr(parser, "instantiate", None) or parser.instantiate_classes  # renamed in jsonargparse 4.49
    study: Study = checked(parser, lambda: instantiate(parsed).study)
    output = folder(parser, parsed.output or Path("outputs") / "quadratic" / Path(str(parsed.config[0])).stem)
    stored = Results(output, Result)
    places = list(itertools.product(study.profiles, study.methods))
    searched = [run for at in places for runs in study.tuning_runs(*at).values() for run in runs]
    results = run_missing(searched, stored, execute, _describe, jobs=at_a_time, what="grids")
    points = {at: chosen_point(study, *at, results) for at in places}
    chosen = [run for at in places for run in reported_runs(study, *at, points[at]).values()]
    results |= run_missing(chosen, stored, execute, _describe, jobs=at_a_time, what="chosen")
    findings = write_report(study, results, output, f"python -m recipes.quadratic {' '.join(given)}")
    console = Console()
    console.print(findings, highlight=False)
    console.print(f"Report: {output / 'report.md'}", highlight=False, soft_wrap=True)
    return 0


def _describe(result: Result) -> str:
    end = f"gap {result.gaps[-1]:.3g} at {result.times[-1]:.4g}"
    return f"{result.status}, {end}, {result.wall_seconds:.1f} s"


if __name__ == "__main__":
    sys.exit(main())
