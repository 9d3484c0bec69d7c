"""Reading YAML files, with what can be wrong with them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import cast

import yaml  # type: ignore[import-untyped]
from typing_extensions import override

from lightning_async.cli.compare.configuration import ComparisonError, Config

_DEEPEST = 50


class _UniqueKeys(yaml.SafeLoader):  # type: ignore[misc]
    """A loader that refuses a key that is given twice, of which YAML would take the last without a word."""

    @override
    def compose_mapping_node(self, anchor: str | None) -> yaml.MappingNode:
        node = super().compose_mapping_node(anchor)
        lines: dict[tuple[str, str], int] = {}
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                continue
            line, name = key.start_mark.line + 1, (key.tag, key.value)
            if name in lines:
                raise yaml.YAMLError(
                    f"the key {key.value!r} is in line {lines[name]} and again in line {line}; keep one of them"
                )
            lines[name] = line
        return node


def read_yaml(path: Path, what: str) -> Config:
    """Reads a YAML file whose top level is a mapping.

    Args:
        path: The file.
        what: What the file is, for messages.

    Raises:
        ComparisonError: If the file cannot be read, is not YAML, holds something else than a mapping, or has something
            in it that is no text, number, true, false, null, list or mapping.
    """
    try:
        content = yaml.load(path.read_text(encoding="utf-8"), Loader=_UniqueKeys)
    except (FileNotFoundError, NotADirectoryError):
        raise ComparisonError(f"{what}: there is no file {path}") from None
    except IsADirectoryError:
        raise ComparisonError(f"{what}: {path} is a folder; name a YAML file") from None
    except OSError as error:
        raise ComparisonError(f"{what}: {path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ComparisonError(f"{what}: {path} is not text in UTF-8; name a YAML file, saved as UTF-8") from None
    except (yaml.YAMLError, ValueError) as error:
        raise ComparisonError(f"{what}: {path} is not valid YAML: {error}") from error
    except RecursionError:
        raise ComparisonError(f"{what}: {path} is nested too deeply; at most {_DEEPEST} levels are read") from None
    if not isinstance(content, dict):
        raise ComparisonError(f"{what}: {path} must hold a mapping, it holds {type(content).__name__}")
    _check(content, f"{what}: {path}:", 0)
    return cast("Config", content)


def _check(value: object, where: str, depth: int) -> None:
    """Refuse what YAML knows and a configuration does not, and what could not be written or computed with."""
    if depth > _DEEPEST:
        raise ComparisonError(
            f"{where[:200]}...: nested too deeply, or within itself; at most {_DEEPEST} levels are read"
        )
    if isinstance(value, dict):
        # Classes may take mappings with integers for keys; keys of several kinds have no order.
        kind = int if all(type(key) is int for key in value) else str
        for key, inner in value.items():
            if not isinstance(key, kind):
                raise ComparisonError(f"{where}: names must be text, got {key!r}; put it in quotes: {str(key)!r}")
            _check(key, where, depth)
            _check(inner, f"{where}{'.' if depth else ' '}{key}", depth + 1)
    elif isinstance(value, list):
        for i, inner in enumerate(value):
            _check(inner, f"{where}[{i}]", depth + 1)
    elif isinstance(value, str):
        if not value.isascii() and any("\ud800" <= character <= "\udfff" for character in value):
            raise ComparisonError(f"{where}: {value!a} has half of a character (a surrogate); write all of it")
    elif isinstance(value, int):
        if abs(value) > sys.float_info.max:
            raise ComparisonError(f"{where}: the number is out of range, which ends at {sys.float_info.max:.3g}")
    elif value is not None and not isinstance(value, float):
        raise ComparisonError(
            f"{where}: expected text, a number, true, false, null, a list or a mapping, got {value!r} "
            f"({type(value).__name__}); if it is text, put it in quotes: {str(value)!r}"
        )
