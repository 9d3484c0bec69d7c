"""Run the study: ``python -m recipes.heavy_tails --config configs/heavy_tails/study.yaml``."""

from __future__ import annotations

import sys
from pathlib import Path

from jsonargparse import ArgumentParser
from rich.console import Console

from recipes.heavy_tails.report import write_report
from recipes.heavy_tails.running import Result, execute
from recipes.heavy_tails.settings import Study
from recipes.studies import Results, checked, folder, jobs, run_missing

DEFAULT = Path(__file__).parents[2] / "configs" / "heavy_tails" / "study.yaml"


def main(arguments: list[str] | None = None) -> int:
    """Run what is missing, write figures, tables and report."""
    parser = ArgumentParser(
        prog="python -m recipes.heavy_tails", description="Clipped and vanilla ASGD under noise of known tail."
    )
    parser.add_argument("--config", action="config", help="study; default configs/heavy_tails/study.yaml")
    parser.add_argument("--study", type=Study, help="what is run")
    parser.add_argument("--output", type=Path, default=None, help="folder; default outputs/heavy_tails/<file name>")
    parser.add_argument("--jobs", type=int, default=1, help="settings at a time")
    given = sys.argv[1:] if arguments is None else arguments
    if not any(argument.startswith(("--config", "--help", "-h")) for argument in given):
        given = [f"--config={DEFAULT}", *given]
    parsed = parser.parse_args(given)
    at_a_time = jobs(parser, parsed.jobs)
    instantiate = getattr(parser, "instantiate", None) or parser.instantiate_classes  # renamed in jsonargparse 4.49
    study: Study = checked(parser, lambda: instantiate(parsed).study)
    output = folder(parser, parsed.output or Path("outputs") / "heavy_tails" / Path(str(parsed.config[0])).stem)
    results = run_missing(
        study.runs(),
        Results(output, Result),
        execute,
        lambda result: f"{result.wall_seconds:.1f} s",
        jobs=at_a_time,
        what="settings",
    )
    write_report(study, results, output, f"python -m recipes.heavy_tails {' '.join(given)}")
    Console().print(f"Report: {output / 'report.md'}", highlight=False, soft_wrap=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
