"""The code that a run's classes come from: digests of files, and versions of packages."""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
import importlib.util
import json
import pkgutil
import sys
import sysconfig
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import FunctionType, ModuleType

import lightning_async
from lightning_async.cli.compare.results import write_atomically

_FILE = "sources.json"
_PACKAGE = lightning_async.__name__
_STANDARD_LIBRARY = tuple(Path(sysconfig.get_path(name)) for name in ("stdlib", "platstdlib"))


@dataclass(frozen=True)
class Sources:
    """What the result of a run depends on beside its configuration.

    Attributes:
        classes: The path of a class that is in no installed package, to the modules that its code is in, to the digests
            of their files.
        packages: Packages that the other classes are in, with their versions.
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
    """Returns the sources of the classes of a configuration that this process has imported.

    Modules from which a class's module has taken classes or functions count as its code, installed ones aside. Every
    file is read once, soon after it was imported: what is in memory counts, whatever happens to the file afterwards.
    """
    classes: dict[str, dict[str, str]] = {}
    packages: dict[str, str] = {}
    for path in sorted(set(_class_paths(config))):
        module = _module_of(path)
        if module is None:
            continue
        found = {name: digest for name, file in _own_modules(module) if (digest := _digest_at_import(file)) is not None}
        if found:
            classes[path] = found
        elif (version := package_version(module.partition(".")[0])) is not None:
            packages[module.partition(".")[0]] = version
    return Sources(classes, packages)


def file_digest(file: Path) -> str | None:
    """Returns a digest of a file, None if it cannot be read."""
    try:
        return hashlib.sha256(file.read_bytes()).hexdigest()[:16]
    except OSError:
        return None


_digest_at_import = functools.cache(file_digest)


def package_version(package: str) -> str | None:
    """Returns the version of a package, None if there is no distribution of that name."""
    if package == _PACKAGE:
        return lightning_async.__version__
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def module_file(module: str) -> Path | None:
    """Returns the file a module would be imported from, without importing anything; None if there is none."""
    spec: ModuleSpec | None = None
    name = ""
    try:
        for part in module.split("."):
            name = f"{name}.{part}" if name else part
            if name == part:
                spec = importlib.util.find_spec(name)
            elif spec is not None:
                spec = PathFinder.find_spec(name, spec.submodule_search_locations)
    except (ImportError, ValueError):
        return None
    return None if spec is None or spec.origin is None or not spec.has_location else Path(spec.origin)


def _class_paths(value: object) -> Iterator[str]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            if key == "class_path" and isinstance(inner, str):
                yield inner
            else:
                yield from _class_paths(inner)
    elif isinstance(value, (list, tuple)):
        for inner in value:
            yield from _class_paths(inner)


def _module_of(path: str) -> str | None:
    try:
        module = getattr(pkgutil.resolve_name(path), "__module__", None)
    except (ImportError, AttributeError, ValueError):
        return None
    return module if isinstance(module, str) else None


def _own_modules(start: str) -> Iterator[tuple[str, Path]]:
    """Yields a module and those it takes code from, with their files, as far as they are in no installed package."""
    waiting, seen = [start], set()
    while waiting:
        name = waiting.pop()
        file = _own_file(name)
        if name in seen or file is None:
            continue
        seen.add(name)
        yield name, file
        for value in list(vars(sys.modules[name]).values()):
            if isinstance(value, ModuleType):
                waiting.append(value.__name__)
            elif isinstance(value, (type, FunctionType)):
                waiting.append(str(value.__module__))


def _own_file(name: str) -> Path | None:
    file = getattr(sys.modules.get(name), "__file__", None)
    if file is None or name.partition(".")[0] == _PACKAGE:
        return None
    path = Path(file)
    installed = {"site-packages", "dist-packages"} & set(path.parts) or any(
        path.is_relative_to(folder) for folder in _STANDARD_LIBRARY
    )
    return None if installed else path
