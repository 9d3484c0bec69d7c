"""Stored runs whose code has changed since they were made."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator
from pathlib import Path

from lightning_async.cli.compare.sources import Sources, file_digest, module_file, package_version


def changed_code(output: Path, keys: Iterable[str]) -> str:
    """Returns what has changed in the code of stored runs, in which of them, and what to do; empty if nothing has.

    Runs of which no sources are stored are passed over, and so are classes that cannot be found any more.

    Args:
        output: Folder of the comparison.
        keys: The stored runs.
    """
    changes: dict[str, set[str]] = {}
    now = _Now()
    folders = {key: output / "runs" / key for key in keys}
    for key, folder in folders.items():
        sources = Sources.read(folder)
        for change in () if sources is None else now.differences(sources):
            changes.setdefault(change, set()).add(key)
    if not changes:
        return ""
    affected = [key for key in folders if any(key in runs for runs in changes.values())]
    lines = [f"  {change}: {_runs(len(runs))}" for change, runs in changes.items()]
    return "\n".join(
        [
            f"code has changed since {len(affected)} of {len(folders)} stored runs were begun:",
            *lines,
            "They are used as they are, beside what runs now. To run them again, delete their folders "
            f"({_folders(output, affected, of=len(folders))}), or keep them and give --output another folder.",
        ]
    )


class _Now:
    """The code as it is now; every file is read once."""

    def __init__(self) -> None:
        self._file = functools.cache(module_file)
        self._digest = functools.cache(file_digest)
        self._version = functools.cache(package_version)

    def differences(self, sources: Sources) -> Iterator[str]:
        for name, modules in sources.classes.items():
            for module, digest in modules.items():
                file = self._file(module)
                found = None if file is None else self._digest(file)
                if found not in (None, digest):
                    yield f"{name}, in {file}"
        for package, version in sources.packages.items():
            installed = self._version(package)
            if installed not in (None, version):
                yield f"{package} {version}, now {installed}"


def _runs(count: int) -> str:
    return f"{count} run" if count == 1 else f"{count} runs"


def _folders(output: Path, keys: list[str], of: int) -> str:
    if len(keys) == 1:
        return str(output / "runs" / keys[0])
    return f"all that were in {output / 'runs'}" if len(keys) == of else f"{output / 'runs'}/{{{','.join(keys)}}}"
