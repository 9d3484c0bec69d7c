"""Stored runs whose code has changed since they were begun."""

from __future__ import annotations

import functools
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TypeAlias

from lightning_async.cli.compare.own_code import file_digest, module_file
from lightning_async.cli.compare.plan import Results, planned_runs
from lightning_async.cli.compare.schema import Comparison
from lightning_async.cli.compare.sources import Sources, package_version

Rows: TypeAlias = "Mapping[str, Mapping[str, int]]"
"""panel/method to the keys of its runs, with their seeds."""


def rows_of_runs(comparison: Comparison, results: Results) -> Rows:
    """Returns the known runs of every method of every panel; one that two of them share is in both.

    Args:
        comparison: The comparison.
        results: Results so far.
    """
    rows: dict[str, dict[str, int]] = {}
    for panel, entry, _, _, seed, run in planned_runs(comparison, results):
        rows.setdefault(f"{panel.name}/{entry.name}", {})[run.key] = seed
    return rows


def changed_finished(output: Path, rows: Rows, finished: Collection[str]) -> str:
    """Returns what has changed in the code of finished runs, in which, and what to do; empty if nothing has.

    Runs of which no sources are stored are passed over, and so are classes that cannot be found any more.

    Args:
        output: Folder of the comparison.
        rows: All known runs.
        finished: Keys of those that have a result.
    """
    changes = _changes(output, finished)
    if not changes:
        return ""
    affected = [key for key in finished if any(key in runs for runs in changes.values())]
    return "\n".join(
        [
            f"code has changed since {len(affected)} of {len(finished)} finished runs were begun:",
            *_lines(changes, rows),
            "They are used as they are, beside what runs now. To run them again, delete "
            f"{_folders(output, affected, rows)}; to keep them, give --output another folder.",
        ]
    )


def changed_interrupted(output: Path, rows: Rows, interrupted: Collection[str]) -> str:
    """Returns which interrupted runs do not go on since their code has changed; empty if all go on.

    The arguments are those of `changed_finished`, with the keys of the runs that have a checkpoint and no result.
    """
    changes = _changes(output, interrupted)
    if not changes:
        return ""
    told = "interrupted runs whose code has changed are begun anew, and what they had done is dropped:"
    return "\n".join([told, *_lines(changes, rows)])


def _changes(output: Path, keys: Collection[str]) -> dict[str, set[str]]:
    changes: dict[str, set[str]] = {}
    now = _Now()
    for key in keys:
        sources = Sources.read(output / "runs" / key)
        for change in () if sources is None else sources.differences(now.sources(sources)):
            changes.setdefault(change, set()).add(key)
    return changes


class _Now:
    """The code as it is now; every file is read once."""

    def __init__(self) -> None:
        self._file = functools.cache(module_file)
        self._digest = functools.cache(file_digest)
        self._version = functools.cache(package_version)

    def sources(self, before: Sources) -> Sources:
        """What is there now of the same classes and packages."""
        classes = {
            name: {
                module: digest
                for module in modules
                if (file := self._file(module)) is not None and (digest := self._digest(file)) is not None
            }
            for name, modules in before.classes.items()
        }
        versions = {package: self._version(package) for package in before.packages}
        return Sources(classes, {package: version for package, version in versions.items() if version is not None})


def _lines(changes: Mapping[str, Collection[str]], rows: Rows) -> list[str]:
    return [
        f"  {change}: {', '.join(_row(name, runs, keys) for name, runs in rows.items() if not keys.isdisjoint(runs))}"
        for change, keys in ((change, frozenset(keys)) for change, keys in changes.items())
    ]


def _row(name: str, runs: Mapping[str, int], changed: Collection[str]) -> str:
    """The name of a row, with the seeds or the number of its runs that have changed if they are not all."""
    rest = {seed for key, seed in runs.items() if key not in changed}
    seeds = sorted({seed for key, seed in runs.items() if key in changed})
    if not rest:
        return name
    if rest.isdisjoint(seeds):
        return f"{name} ({'seed' if len(seeds) == 1 else 'seeds'} {', '.join(map(str, seeds))})"
    return f"{name} ({sum(key in changed for key in runs)} of its {len(runs)} runs)"


def _folders(output: Path, keys: list[str], rows: Rows) -> str:
    if {key for runs in rows.values() for key in runs} <= set(keys):
        return str(output / "runs")
    return str(output / "runs" / (keys[0] if len(keys) == 1 else f"{{{','.join(keys)}}}"))
