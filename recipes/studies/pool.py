"""Runs that have no result yet, several at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import as_completed
from concurrent.futures.process import BrokenProcessPool
from typing import TypeVar

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from lightning_async.cli.compare.lifeline import worker_processes
from recipes.studies.results import Results, ResultT, Run

__all__ = ["run_missing"]

RunT = TypeVar("RunT", bound=Run)


def run_missing(
    runs: Iterable[RunT],
    stored: Results[ResultT],
    execute: Callable[[RunT], ResultT],
    describe: Callable[[ResultT], str],
    *,
    jobs: int,
    what: str = "runs",
) -> dict[str, ResultT]:
    """Run what has no result yet; every result is stored as soon as it is there.

    Args:
        runs: What is wanted.
        stored: Where results are, and go.
        execute: Makes a result, in another process: a function of a module.
        describe: A result in a few words, for the line that is printed when it is there.
        jobs: Runs at a time.
        what: Name of the runs, for people.

    Returns:
        The results by the key of their run.

    Raises:
        SystemExit: On Ctrl-C, and when a process was killed; finished runs are kept.
    """
    wanted = {run.key: run for run in runs}
    results = {key: result for key, run in wanted.items() if (result := stored.read(run)) is not None}
    missing = [run for key, run in wanted.items() if key not in results]
    if not missing:
        return results
    console = Console()
    columns = (TextColumn(f"{what:<12}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    try:
        with (
            worker_processes(min(jobs, len(missing))) as pool,
            Progress(*columns, console=console, disable=not console.is_terminal) as progress,
        ):
            task = progress.add_task(what, total=len(wanted), completed=len(results))
            futures = {pool.submit(execute, run): run for run in missing}
            for number, future in enumerate(as_completed(futures), 1):
                run, result = futures[future], future.result()
                stored.write(run, result)
                results[run.key] = result
                progress.advance(task)
                line = f"{what} {number}/{len(missing)}: {run.name}: {describe(result)}"
                console.print(line, highlight=False, markup=False, soft_wrap=True)
    except KeyboardInterrupt:
        console.print(f"Stopped. Finished {what} are kept in {stored.folder}; the same command goes on from there.")
        raise SystemExit(130) from None
    except BrokenProcessPool:
        raise SystemExit(
            f"A process was killed from outside (out of memory?). Finished {what} are kept in {stored.folder}; the "
            "same command goes on from there, perhaps with fewer --jobs."
        ) from None
    return results
