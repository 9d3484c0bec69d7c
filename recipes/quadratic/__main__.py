"""Run the study: ``python -m recipes.quadratic --config configs/quadratic/reduced.yaml``."""

from __future__ import annotations

import itertools
import multiprocessing
import sys
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

from jsonargparse import ArgumentParser
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from recipes.quadratic.report import write_report
from recipes.quadratic.running import Result, Results, execute
from recipes.quadratic.settings import Run, Study
from recipes.quadratic.summary import chosen_point, reported_runs

DEFAULT = Path(__file__).parents[2] / "configs" / "quadratic" / "reduced.yaml"


def run_missing(runs: Iterable[Run], stored: Results, jobs: int, what: str) -> dict[str, Result]:
    """Run what has no result yet, several at a time; every result is stored as soon as it is there."""
    wanted = list(runs)
    results = {run.key: result for run in wanted if (result := stored.read(run)) is not None}
    missing = list({run.key: run for run in wanted if run.key not in results}.values())
    console = Console()
    columns = (
        TextColumn(f"{what:<12}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    context = multiprocessing.get_context("spawn")
    with (
        Progress(*columns, console=console, disable=not console.is_terminal) as progress,
        ProcessPoolExecutor(jobs, context) as pool,
    ):
        task = progress.add_task(what, total=len(wanted), completed=len(wanted) - len(missing))
        futures = {pool.submit(execute, run): run for run in missing}
        try:
            for number, future in enumerate(as_completed(futures), 1):
                run, result = futures[future], future.result()
                stored.write(run, result)
                results[run.key] = result
                progress.advance(task)
                console.print(
                    f"{what} {number}/{len(missing)}: {run.name}: {result.status}, gap {result.gaps[-1]:.3g} at "
                    f"{result.times[-1]:.4g}, {result.wall_seconds:.1f} s",
                    highlight=False,
                    soft_wrap=True,
                )
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return results


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
    if parsed.jobs < 1:
        parser.error(f"--jobs must be at least 1, got {parsed.jobs}")
    instantiate = getattr(parser, "instantiate", None) or parser.instantiate_classes  # renamed in jsonargparse 4.49
    study: Study = instantiate(parsed).study
    output = parsed.output or Path("outputs") / "quadratic" / Path(str(parsed.config[0])).stem
    stored = Results(output)
    places = list(itertools.product(study.profiles, study.methods))
    searched = [run for at in places for runs in study.tuning_runs(*at).values() for run in runs]
    results = run_missing(searched, stored, parsed.jobs, "grids")
    points = {at: chosen_point(study, *at, results) for at in places}
    chosen = [run for at in places for run in reported_runs(study, *at, points[at]).values()]
    results |= run_missing(chosen, stored, parsed.jobs, "chosen")
    findings = write_report(study, results, output, f"python -m recipes.quadratic {' '.join(given)}")
    console = Console()
    console.print(findings, highlight=False)
    console.print(f"Report: {output / 'report.md'}", highlight=False, soft_wrap=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
