"""Run the study: ``python -m recipes.heavy_tails --config configs/heavy_tails/study.yaml``."""

from __future__ import annotations

import sys

from rich.console import Console

from recipes.heavy_tails.report import write_report
from recipes.heavy_tails.running import Result, execute
from recipes.heavy_tails.settings import Study
from recipes.studies import Results, read_command, run_missing


def main(arguments: list[str] | None = None) -> int:
    """Run what is missing, write figures, tables and report."""
    command = read_command(
        "heavy_tails", "Clipped and vanilla ASGD under noise of known tail.", Study, arguments, config="study"
    )
    results = run_missing(
        command.study.runs(),
        Results(command.output, Result),
        execute,
        lambda result: f"{result.wall_seconds:.1f} s",
        jobs=command.jobs,
        what="settings",
    )
    write_report(command.study, results, command.output, command.text)
    Console().print(f"Report: {command.output / 'report.md'}", highlight=False, soft_wrap=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
