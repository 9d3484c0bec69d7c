"""Durations that were measured on real machines."""

from __future__ import annotations

import math
from csv import DictReader
from csv import Error as CSVError
from os import PathLike
from pathlib import Path
from typing import Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt
from typing_extensions import override

from lightning_async.arguments import choice
from lightning_async.described import describe, digest
from lightning_async.simulation.random_blocks import block_sampler
from lightning_async.simulation.worker_times import Duration, WorkerTimes

TraceOrder: TypeAlias = Literal["cycle", "random"]


class TraceTimes(WorkerTimes):
    r"""Replays durations from a CSV file; its contents enter the repr, the folder that it lies in does not.

    Args:
        csv: file with a header and the columns `worker` (0..n-1, each at least once, rows in any order) and `seconds`
            (positive; the unit of logical time then is a second). Further columns are ignored.
        order: "cycle" gives a worker its own durations in the order of the file, again and again; "random" draws from
            them with replacement.

    Attributes:
        durations: for each worker its measured durations, in seconds.

    Raises:
        TypeError: if `csv` is not a path, or `order` not a string.
        OSError: if the file cannot be read.
        ValueError: if the order is unknown, or the file is not as described; the message names the line.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder, "trace.csv")
        ...     _ = path.write_text("worker,seconds\n0,1.5\n1,4\n0,2.5\n")
        ...     times = TraceTimes(path)
        >>> [times.duration(worker=0, job=job) for job in range(3)]
        [1.5, 2.5, 1.5]
    """

    def __init__(self, csv: str | Path, order: TraceOrder = "cycle") -> None:
        if not isinstance(csv, (str, PathLike)):
            raise TypeError(f"csv must be the path of a file, got {csv!r}")
        self.csv = str(csv)
        self.order = choice("order", order, get_args(TraceOrder))
        try:
            self.durations = _read(Path(csv))
        except IsADirectoryError:
            raise ValueError(f"csv must be a file, got the folder {self.csv!r}; name the file in it") from None
        except (UnicodeDecodeError, CSVError) as error:
            raise ValueError(
                f"{self.csv} is not a CSV file in UTF-8 ({error}); write the columns worker and seconds as text"
            ) from None
        self.num_workers = len(self.durations)

    def __repr__(self) -> str:
        contents = digest(repr(self.durations))
        return f"TraceTimes(csv={describe(Path(self.csv).name)}, order={self.order!r}, sha256={contents!r})"

    @override
    def sampler(self, seed: int) -> Duration:
        durations = self.durations
        if self.order == "random":

            def draw(generator: np.random.Generator, worker: int, size: int) -> npt.NDArray[np.float64]:
                measured = np.asarray(durations[worker])
                return measured[(generator.random(size) * len(measured)).astype(np.intp)]

            return block_sampler(self.num_workers, seed, draw)

        def duration(worker: int, job: int, start: float) -> float:
            measured = durations[worker]
            return measured[job % len(measured)]

        return duration


def _read(path: Path) -> tuple[tuple[float, ...], ...]:
    durations: dict[int, list[float]] = {}
    with path.open(newline="", encoding="utf-8-sig") as file:
        rows = DictReader(file, skipinitialspace=True)
        columns = rows.fieldnames or []
        if "worker" not in columns or "seconds" not in columns:
            found = ", ".join(map(repr, columns)) or "an empty file"
            raise ValueError(f"{path}, line 1: the header must name the columns worker and seconds, got {found}")
        for row in rows:
            where = f"{path}, line {rows.line_num}"
            worker, seconds = row["worker"] or "", row["seconds"] or ""
            if not (worker.strip().isascii() and worker.strip().isdigit()):
                raise ValueError(f"{where}: worker must be an integer of at least 0, got {worker!r}")
            try:
                duration = float(seconds)
            except ValueError:
                duration = math.nan
            if not 0.0 < duration < math.inf:
                raise ValueError(f"{where}: seconds must be a positive, finite number, got {seconds!r}")
            durations.setdefault(int(worker), []).append(duration)
    if not durations:
        raise ValueError(f"{path} has no row below its header; give at least one duration for each worker")
    for worker in range(len(durations)):
        if worker not in durations:
            raise ValueError(
                f"{path} has no row for worker {worker}, but one for worker {max(durations)}; number the workers "
                f"0..n-1 without gaps"
            )
    return tuple(tuple(durations[worker]) for worker in range(len(durations)))
