"""What the terminal shows while a comparison runs."""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from lightning_async.cli.compare.plan import known_runs, run_names, undecided_runs
from lightning_async.cli.compare.results import RunResult
from lightning_async.cli.compare.schema import Comparison
from lightning_async.cli.compare.workers import Event


class ProgressDisplay:
    """A bar for all runs, and one in logical time for every run in progress.

    Where the output is not a terminal, one line per finished run instead.

    Args:
        comparison: The comparison.
        results: Results that are there before anything runs.
        only: Names that the runs are restricted to.
    """

    def __init__(
        self, comparison: Comparison, results: Mapping[str, RunResult], only: frozenset[str] | None = None
    ) -> None:
        self._comparison = comparison
        self._only = only
        self._console = Console()
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.fields[state]}"),
            TimeElapsedColumn(),
            console=self._console,
            transient=True,
            disable=not self._console.is_terminal,
        )
        self._all = self._progress.add_task(f"[bold]{comparison.name}", state="")
        self._running: dict[str, TaskID] = {}
        self._names: dict[str, str] = {}
        self._total = 0
        self._count(results)

    def __enter__(self) -> ProgressDisplay:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()

    def show(self, event: Event, results: Mapping[str, RunResult]) -> None:
        """Brings the display up to date.

        Args:
            event: What happened.
            results: Results so far, the event's included.
        """
        name = self._names.get(event.key, event.key)
        if event.result is None:
            if event.key not in self._running:
                self._running[event.key] = self._progress.add_task(f"  {name}", total=self._comparison.budget, state="")
            self._progress.update(
                self._running[event.key],
                completed=event.time,
                state=f"logical time {event.time:.0f} of {self._comparison.budget:g}",
            )
            return
        if event.key in self._running:
            self._progress.remove_task(self._running.pop(event.key))
        self._count(results)
        done = self._done(results)
        if not self._console.is_terminal or event.result.status != "finished":
            seconds = f"{event.result.wall_seconds:.1f} s"
            self._console.print(
                f"[{done}/{self._total}] {name}: {event.result.status} at {event.time:.1f}, {seconds}",
                markup=False,
                highlight=False,
                soft_wrap=True,
            )

    def _count(self, results: Mapping[str, RunResult]) -> None:
        known = known_runs(self._comparison, results, self._only)
        self._known = frozenset(known)
        self._names = run_names(self._comparison, results)
        self._total = len(known) + undecided_runs(self._comparison, results, self._only)
        done = self._done(results)
        self._progress.update(self._all, total=self._total, completed=done, state=f"{done} of {self._total} runs")

    def _done(self, results: Mapping[str, RunResult]) -> int:
        return sum(key in results for key in self._known)
