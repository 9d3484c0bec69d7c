"""Settings that have no result yet, several at a time."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterable

from rich.console import Console
from rich.progress import track

from recipes.heavy_tails.running import Result, Results, execute
from recipes.heavy_tails.settings import Run

__all__ = ["run_missing"]


def run_missing(runs: Iterable[Run], stored: Results, jobs: int) -> dict[str, Result]:
    """Run what has no result yet; every result is stored as soon as it is there."""
    wanted = list(runs)
    results = {run.key: result for run in wanted if (result := stored.read(run)) is not None}
    missing = [run for run in wanted if run.key not in results]
    console = Console()
    if not missing:
        return results
    with multiprocessing.get_context("spawn").Pool(jobs) as pool:
        done = pool.imap(execute, missing)
        shown = track(missing, "settings", console=console, disable=not console.is_terminal)
        for number, (run, result) in enumerate(zip(shown, done, strict=True), 1):
            stored.write(run, result)
            results[run.key] = result
            console.print(
                f"{number}/{len(missing)}: {run.name}: {result.wall_seconds:.1f} s", highlight=False, soft_wrap=True
            )
    return results
