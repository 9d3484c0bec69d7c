"""Processes that train the runs of a comparison, several at a time."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Container, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from multiprocessing.queues import Queue
from pathlib import Path

from lightning_async.cli.compare.configuration import ComparisonError
from lightning_async.cli.compare.lifeline import SPAWN, worker_processes
from lightning_async.cli.compare.plan import Run
from lightning_async.cli.compare.results import ResultFolder, RunResult, write_atomically
from lightning_async.cli.compare.schema import Wandb

_reports: Queue[tuple[str, float]] | None = None


@dataclass(frozen=True)
class Job:
    """A run, with what the process that trains it needs beside it."""

    run: Run
    name: str
    output: Path
    checkpoint_every: float
    wandb: Wandb | None
    wandb_group: str


@dataclass(frozen=True)
class Event:
    """Something that happened to a run: it is at a logical time, or (with a result) it has ended."""

    key: str
    time: float = 0.0
    result: RunResult | None = None


def run_all(
    next_jobs: Callable[[Mapping[str, RunResult]], Mapping[str, Job]],
    results: dict[str, RunResult],
    output: Path,
    num_processes: int,
) -> Iterator[Event]:
    """Trains whatever is missing, and yields what happens.

    Args:
        next_jobs: From the results so far to all jobs known to be needed; it grows as grids complete.
        results: Results so far by run key; new ones are added.
        output: Folder of the comparison.
        num_processes: How many runs at a time.

    Raises:
        ComparisonError: If a process was killed from outside, or a run shows that the comparison cannot be made;
            everything that had finished is kept.
    """
    reports: Queue[tuple[str, float]] = SPAWN.Queue()
    folder = ResultFolder(output)
    futures: dict[Future[None], str] = {}
    submitted: set[str] = set()
    changed = True
    try:
        with worker_processes(num_processes, _prepare, (reports,)) as pool:
            while True:
                for key, job in next_jobs(results).items() if changed else ():
                    # One that waits in the pool would begin before the end of the one before it is looked at here.
                    if len(futures) < num_processes and key not in results and key not in submitted:
                        submitted.add(key)
                        futures[pool.submit(_train, job)] = key
                if not futures:
                    break
                done, _ = wait(futures, timeout=0.2, return_when=FIRST_COMPLETED)
                yield from progress(reports, results)
                changed = bool(done)
                for future in done:
                    key = futures.pop(future)
                    future.result()
                    result = folder.read(key)
                    if result is None:
                        raise ComparisonError(
                            f"the result of run {key} vanished from {output}; run the comparison again"
                        )
                    results[key] = result
                    yield Event(key, result.end_time, result)
    except BrokenProcessPool as error:
        raise ComparisonError(
            "a training process was killed from outside (out of memory?); finished runs are kept, run the same command "
            "again to continue, perhaps with fewer --jobs"
        ) from error


def progress(reports: Queue[tuple[str, float]], ended: Container[str]) -> Iterator[Event]:
    """What runs have reported of where they are; a report can arrive after the end of its run, and is then no news.

    Args:
        reports: Keys of runs with their logical times.
        ended: Keys of the runs that have a result.
    """
    while not reports.empty():
        key, time = reports.get()
        if key not in ended:
            yield Event(key, time)


def _prepare(reports: Queue[tuple[str, float]]) -> None:
    global _reports
    _reports = reports

    import torch

    torch.set_num_threads(1)


def _train(job: Job) -> None:
    from lightning_async.cli.compare.execution import discard_checkpoint, execute

    folder = ResultFolder(job.output)
    key = job.run.key
    run_folder = folder.run_folder(key)
    run_folder.mkdir(parents=True, exist_ok=True)
    write_atomically(run_folder / "config.yaml", job.run.yaml())

    def report(time: float) -> None:
        assert _reports is not None
        _reports.put((key, time))

    with _output_to(run_folder / "log.txt"), _named(job.name):
        result = execute(
            job.run,
            run_folder,
            checkpoint_every=job.checkpoint_every,
            report=report,
            wandb=job.wandb,
            wandb_group=job.wandb_group,
            wandb_name=job.name,
        )
        if result.error:
            print(result.error)
    folder.write(key, result)
    if result.status != "failed":
        discard_checkpoint(run_folder)


@contextlib.contextmanager
def _named(run: str) -> Iterator[None]:
    try:
        yield
    except ComparisonError as error:
        raise ComparisonError(
            f"{run}: {error}. Finished runs are kept: correct it and run the same command again"
        ) from error


@contextlib.contextmanager
def _output_to(path: Path) -> Iterator[None]:
    """Sends what this process and its libraries print to a file, so that the progress display stays whole."""
    before = os.dup(1), os.dup(2)
    with path.open("ab") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    try:
        yield
    finally:
        for descriptor, saved in enumerate(before, start=1):
            os.dup2(saved, descriptor)
            os.close(saved)
