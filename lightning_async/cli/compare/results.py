"""The folder of a comparison: whose it is, and one result per run, written whole or not at all."""

from __future__ import annotations

import fcntl
import json
import math
import os
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Literal, TypeAlias, get_args

from lightning_async.cli.compare.configuration import ComparisonError, Config, fingerprint

FORMAT = 1
LOCK = ".lock"
CHECKPOINT = "resume"


Status: TypeAlias = Literal["finished", "diverged", "failed"]


@dataclass
class RunResult:
    """What a run left behind.

    Attributes:
        status: `finished`; `diverged` if a watched metric became infinite or NaN; `failed` if an exception ended it.
        times: Logical time of every evaluation.
        steps: Server updates at every evaluation.
        train_loss: Mean training loss since the evaluation before.
        metrics: Logged name to its value at every evaluation.
        counters: What the method or the strategy reports of itself, such as `bits_sent`, at every evaluation.
        data: What the data are, as the data module calls them.
        error: The traceback of a failed run.
        end_time: Logical time at which the run ended.
        wall_seconds: Wall time, over all restarts.
        versions: Versions of the packages that made the result.
    """

    status: Status
    times: list[float] = field(default_factory=list)
    steps: list[int] = field(default_factory=list)
    train_loss: list[float] = field(default_factory=list)
    metrics: dict[str, list[float]] = field(default_factory=dict)
    counters: dict[str, list[float]] = field(default_factory=dict)
    data: str = ""
    error: str = ""
    end_time: float = 0.0
    wall_seconds: float = 0.0
    versions: dict[str, str] = field(default_factory=dict)

    def dumps(self) -> str:
        """Returns the result as JSON; values that are not finite become null."""
        content = {"format": FORMAT, **asdict(self)}
        content["train_loss"] = [_null(v) for v in self.train_loss]
        for key, columns in (("metrics", self.metrics), ("counters", self.counters)):
            content[key] = {name: [_null(v) for v in values] for name, values in columns.items()}
        return json.dumps(content, allow_nan=False)

    @classmethod
    def loads(cls, text: str) -> RunResult:
        """Reads what `dumps` wrote.

        Raises:
            ValueError: If the text is not a whole result of this format.
        """
        content = json.loads(text)
        if not isinstance(content, dict) or content.pop("format", None) != FORMAT:
            raise ValueError("not a result of this format")
        content["train_loss"] = [_nan(v) for v in content["train_loss"]]
        for key in ("metrics", "counters"):
            content[key] = {name: [_nan(v) for v in values] for name, values in content[key].items()}
        result = cls(**content)
        columns: list[Sequence[float]] = [
            result.times,
            result.steps,
            result.train_loss,
            *result.metrics.values(),
            *result.counters.values(),
        ]
        if any(len(column) != len(result.times) for column in columns):
            raise ValueError("not one value for every evaluation")
        numbers = [value for column in columns for value in column] + [result.end_time, result.wall_seconds]
        texts = [result.data, result.error, *result.versions, *result.versions.values()]
        finite = all(map(math.isfinite, [*result.times, *result.steps, result.end_time, result.wall_seconds]))
        if not (finite and all(type(v) in (int, float) for v in numbers) and all(isinstance(t, str) for t in texts)):
            raise ValueError("not numbers and texts throughout")
        if result.status not in get_args(Status):
            raise ValueError(f"unknown status {result.status!r}")
        return result


def _null(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _nan(value: float | None) -> float:
    return math.nan if value is None else value


def write_atomically(path: Path, content: str) -> None:
    """Writes a file so that a reader, or a restart after a crash, finds all of it or what was there before."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    with partial.open("w", encoding="utf-8") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    os.replace(partial, path)
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


class ResultFolder:
    """The folder of one comparison.

    Args:
        path: The folder; made when it is claimed.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def run_folder(self, key: str) -> Path:
        """Returns the folder of one run."""
        return self.path / "runs" / key

    def is_interrupted(self, key: str) -> bool:
        """Whether there is a checkpoint from which the run goes on."""
        return (self.run_folder(key) / f"{CHECKPOINT}.ckpt").is_file()

    def check_owner(self, name: str, identity: Config, *, extend: bool = False) -> None:
        """Checks that this comparison may use the folder, without touching it.

        Args:
            name: Name of the comparison.
            identity: What decides which runs there are.
            extend: Accept a folder of the same name whose comparison has changed; its unchanged runs are kept.

        Raises:
            ComparisonError: If the folder is another comparison's, or holds something else.
        """
        if self._marker.is_file():
            self._compare_owner(name, identity, extend=extend)
        elif self.path.exists() and not self.path.is_dir():
            raise ComparisonError(f"{self.path} is a file; choose a folder with --output")
        elif self.path.is_dir() and any(entry.name != LOCK for entry in self.path.iterdir()):
            raise ComparisonError(
                f"{self.path} holds files that are not a comparison's; choose an empty folder with --output"
            )

    @contextmanager
    def claim(self, name: str, identity: Config, *, extend: bool = False) -> Iterator[None]:
        """Makes the folder this comparison's, and this process the only one that runs in it.

        The arguments and errors are those of `check_owner`.
        """
        try:
            self.check_owner(name, identity, extend=extend)
            self.path.mkdir(parents=True, exist_ok=True)
            opened = (self.path / LOCK).open("w")
        except OSError as error:
            raise ComparisonError(
                f"{self.path} cannot be made or written: {error.strerror}; choose another folder with --output"
            ) from error
        with opened as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise ComparisonError(
                    f"another process is running a comparison in {self.path}; wait for it, or choose another folder "
                    "with --output"
                ) from None
            self.check_owner(name, identity, extend=extend)
            content = {"name": name, "fingerprint": fingerprint(identity), "identity": identity}
            write_atomically(self._marker, json.dumps(content, indent=1))
            yield

    @property
    def _marker(self) -> Path:
        return self.path / "comparison.json"

    def _compare_owner(self, name: str, identity: Config, *, extend: bool) -> None:
        mark = fingerprint(identity)
        try:
            owner = json.loads(self._marker.read_text(encoding="utf-8"))
            other, other_mark, theirs = owner["name"], owner["fingerprint"], dict(owner["identity"])
        except (ValueError, KeyError, TypeError) as error:
            raise ComparisonError(
                f"{self._marker} cannot be read ({error}); choose another folder with --output"
            ) from error
        if other_mark == mark or (other == name and (extend or self._nothing_finished())):
            return
        changed = [key for key in identity if theirs.get(key) != identity[key]]
        raise ComparisonError(
            f"{self.path} belongs to another comparison: {other!r} ({other_mark}), this is {name!r} ({mark}); they "
            f"differ in {', '.join(changed)}. Choose another folder with --output"
            + (", or keep its unchanged runs with --extend" if other == name else "")
        )

    def _nothing_finished(self) -> bool:
        """Whether there is no result that a corrected comparison could do without."""
        stored = (self.read(folder.name) for folder in (self.path / "runs").glob("*"))
        return all(result is None or result.status == "failed" for result in stored)

    def read(self, key: str, watch: Collection[str] = ()) -> RunResult | None:
        """Returns the result of a run, None if there is none or only part of one.

        Args:
            key: Key of the run.
            watch: Metrics that it must have, unless it failed.
        """
        try:
            result = RunResult.loads((self.run_folder(key) / "result.json").read_text(encoding="utf-8"))
        except (OSError, AttributeError, KeyError, TypeError, ValueError, OverflowError, RecursionError):
            return None
        return result if result.status == "failed" or result.metrics.keys() >= set(watch) else None

    def write(self, key: str, result: RunResult) -> None:
        """Stores the result of a run."""
        write_atomically(self.run_folder(key) / "result.json", result.dumps())
