"""The code that a run depends on: digests of the user's own files, and versions of packages."""

from __future__ import annotations

import importlib.metadata
import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import lightning_async
from lightning_async.cli.compare.own_code import PACKAGE, module_file, own_code, own_module
from lightning_async.cli.compare.results import write_atomically

_FILE = "sources.json"


@dataclass(frozen=True)
class Sources:
    """What the result of a run depends on beside its configuration.

    Attributes:
        classes: The path of a class or a function that is in no installed package, to the modules that its code is in,
            to the digests of their files.
        packages: Packages that the others are in, with their versions.
    """

    classes: dict[str, dict[str, str]]
    packages: dict[str, str]

    def write(self, folder: Path) -> None:
        """Stores it in the folder of a run."""
        write_atomically(folder / _FILE, json.dumps(asdict(self), indent=1))

    @classmethod
    def read(cls, folder: Path) -> Sources | None:
        """Returns what is stored in the folder of a run, None if there is nothing that can be read."""
        try:
            content = json.loads((folder / _FILE).read_text(encoding="utf-8"))
            classes = {
                str(name): {str(m): str(d) for m, d in files.items()} for name, files in content["classes"].items()
            }
            return cls(classes, {str(name): str(version) for name, version in content["packages"].items()})
        except (OSError, AttributeError, KeyError, TypeError, ValueError):
            return None

    def differences(self, now: Sources) -> list[str]:
        """Returns the files and packages that are not the same now; what only one side knows says nothing."""
        files = [
            f"{name}, in {module_file(module)}"
            for name, modules in self.classes.items()
            for module, digest in modules.items()
            if now.classes.get(name, {}).get(module, digest) != digest
        ]
        packages = [
            f"{package} {version}, now {now.packages[package]}"
            for package, version in self.packages.items()
            if now.packages.get(package, version) != version
        ]
        return files + packages


def imported_sources(config: Mapping[str, object]) -> Sources:
    """Returns the sources of the classes and functions of a configuration that this process has imported.

    All that looks like the dotted path of one is taken for it, whatever its key.
    """
    classes: dict[str, dict[str, str]] = {}
    packages: dict[str, str] = {}
    for path in sorted(set(_dotted_paths(config))):
        package = path.partition(".")[0]
        module = own_module(path)
        if module is not None and module[0] in sys.modules:
            classes[path] = own_code(path)
        elif package in sys.modules and (version := package_version(package)) is not None:
            packages[package] = version
    return Sources(classes, packages)


def package_version(package: str) -> str | None:
    """Returns the version of a package, None if there is no distribution of that name."""
    if package == PACKAGE:
        return lightning_async.__version__
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _dotted_paths(value: object) -> Iterator[str]:
    """Yields what can be the path of a class or a function, which may also be there itself."""
    if isinstance(value, Mapping):
        for inner in value.values():
            yield from _dotted_paths(inner)
    elif isinstance(value, (list, tuple)):
        for inner in value:
            yield from _dotted_paths(inner)
    elif isinstance(value, str):
        if "." in value and all(part.isidentifier() for part in value.split(".")):
            yield value
    elif callable(value):
        named = value if hasattr(value, "__qualname__") else type(value)
        yield f"{named.__module__}.{named.__qualname__}"
