"""The user's own files that a class or a function depends on, found by import statements, without importing anything.

Files of installed packages and of the standard library are nobody's own.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import importlib.util
import sys
import sysconfig
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path

import lightning_async

PACKAGE = lightning_async.__name__
_STANDARD_LIBRARY = tuple(Path(sysconfig.get_path(name)) for name in ("stdlib", "platstdlib"))


def own_code(path: str) -> dict[str, str]:
    """Returns the modules that the object at a dotted path depends on, with the digests of their files.

    They are the one that it is in and those that this one imports, anywhere in it, and so on. Of a module that has the
    object from elsewhere and does no more than pass it on, such as the `__init__` of a package, only the latter counts.
    Every file is read once, soon after it was imported: what is in memory counts, whatever happens to it afterwards.
    """
    found: dict[str, str] = {}
    waiting, seen = [path], set()
    while waiting:
        path = waiting.pop()
        where = own_module(path)
        if path in seen or where is None:
            continue
        seen.add(path)
        module, file = where
        code = _code_at_import(module, file)
        source = code.passed_on.get(path[len(module) + 1 :].partition(".")[0])
        if source is not None and own_module(source) is not None:
            waiting.append(source)
        elif code.digest is not None:
            found[module] = code.digest
            waiting.extend(code.imports)
    return dict(sorted(found.items()))


def own_module(path: str) -> tuple[str, Path] | None:
    """Returns the module that a dotted path names, or names something in, with its file; None if it is not own."""
    module = path
    while module and module.partition(".")[0] != PACKAGE:
        file = getattr(sys.modules.get(module), "__file__", None) or module_file(module)
        if file is not None:
            return (module, Path(file)) if _is_own(Path(file)) else None
        module = module.rpartition(".")[0]
    return None


def module_file(module: str) -> Path | None:
    """Returns the file a module would be imported from, without importing anything; None if there is none."""
    top, *below = module.split(".")
    name = top
    try:
        spec: ModuleSpec | None = importlib.util.find_spec(top)
        for part in below:
            if spec is None or spec.submodule_search_locations is None:
                return None
            name = f"{name}.{part}"
            spec = PathFinder.find_spec(name, spec.submodule_search_locations)
    except (ImportError, ValueError, KeyError):  # the last for folders without __init__ in what is not imported
        return None
    return None if spec is None or spec.origin is None or not spec.has_location else Path(spec.origin)


def file_digest(file: Path) -> str | None:
    """Returns a digest of a file, None if it cannot be read."""
    try:
        return _digest(file.read_bytes())
    except OSError:
        return None


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]


def _is_own(file: Path) -> bool:
    installed = {"site-packages", "dist-packages"} & set(file.parts)
    return not installed and not any(file.is_relative_to(folder) for folder in _STANDARD_LIBRARY)


@dataclass(frozen=True)
class _Code:
    """What a file says.

    Attributes:
        digest: Of the file; None if it cannot be read.
        imports: Dotted paths of all that it imports.
        passed_on: Names that it only imports, and does not bind itself, with the dotted paths of what they are.
    """

    digest: str | None
    imports: tuple[str, ...]
    passed_on: dict[str, str]


@functools.cache
def _code_at_import(module: str, file: Path) -> _Code:
    try:
        content = file.read_bytes()
    except OSError:
        return _Code(None, (), {})
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # they come when it is imported
            tree = ast.parse(content)
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # such as an extension module, which is no text
        return _Code(_digest(content), (), {})
    package = module if file.stem == "__init__" else module.rpartition(".")[0]
    nodes = list(ast.walk(tree))
    imports = [path for node in nodes for _, path in _imported(node, package)]
    bound = {name for node in nodes for name in _bound(node)}
    at_top = [name for node in tree.body if isinstance(node, ast.ImportFrom) for name in _imported(node, package)]
    passed_on = {name: path for name, path in at_top if name not in bound}
    return _Code(_digest(content), tuple(imports), passed_on)


def _imported(node: ast.AST, package: str) -> Iterator[tuple[str, str]]:
    """Yields the names that an import statement binds, with the dotted paths of what they are."""
    if isinstance(node, ast.Import):
        for alias in node.names:
            yield alias.asname or alias.name, alias.name
            if alias.asname is None:
                top = alias.name.partition(".")[0]
                yield top, top
    elif isinstance(node, ast.ImportFrom):
        try:
            source = importlib.util.resolve_name("." * node.level + (node.module or ""), package)
        except ImportError:  # more dots than there are packages
            return
        for alias in node.names:
            yield alias.asname or alias.name, source if alias.name == "*" else f"{source}.{alias.name}"


def _bound(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
        yield node.id
    elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        yield node.name
