"""Runs that have no result yet, several at a time, with progress."""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor, as_completed

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from recipes.quadratic.running import Result, Results, execute
from recipes.quadratic.settings import Run

__all__ = ["run_missing"]


def _start_worker() -> None:
    """End with the process that started this one, however it ends: no orphan goes on computing."""

    def watch() -> None:
        parent = multiprocessing.parent_process()
        assert parent is not None
        parent.join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


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
        ProcessPoolExecutor(jobs, context, _start_worker) as pool,
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
