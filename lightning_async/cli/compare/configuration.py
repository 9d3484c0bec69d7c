"""Nested configuration mappings: reading, merging, dotted keys, and a fingerprint of their content."""

from __future__ import annotations

import copy
import difflib
import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TypeAlias

import yaml  # type: ignore[import-untyped]

Value: TypeAlias = "bool | int | float | str | list[Value] | dict[str, Value] | None"
Config: TypeAlias = "dict[str, Value]"

_POWER = re.compile(r"^\s*(\d+(?:\.\d+)?)\s*(?:\^|\*\*)\s*(-?\d+)\s*$")
_FLOAT = re.compile(r"^[-+]?(\d+\.?\d*|\.\d+)[eE][-+]?\d+$")


class ComparisonError(ValueError):
    """A comparison file, or the folder it writes to, is not usable; the message says what to change."""


def nearest(name: str, known: Iterable[str]) -> str:
    """Returns the part of an error message that names what is allowed, the closest name first.

    Example:
        >>> nearest("cliped_asgd", ["asgd", "clipped_asgd"])
        "did you mean 'clipped_asgd'? (known: asgd, clipped_asgd)"
    """
    names = sorted(known)
    listed = f"known: {', '.join(names) or 'none'}"
    close = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    return f"did you mean {close[0]!r}? ({listed})" if close else listed


def read_yaml(path: Path, what: str) -> Config:
    """Reads a YAML file whose top level is a mapping.

    Raises:
        ComparisonError: If the file does not exist, is not YAML, or holds something else than a mapping.
    """
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ComparisonError(f"{what}: there is no file {path}") from None
    except yaml.YAMLError as error:
        raise ComparisonError(f"{what}: {path} is not valid YAML: {error}") from error
    if not isinstance(content, dict):
        raise ComparisonError(f"{what}: {path} must hold a mapping, it holds {type(content).__name__}")
    return content


def number(value: Value, where: str) -> float:
    """Returns a number that may also be written as a power, `2^-5` or `2**-5`, as step-size grids are in papers.

    Example:
        >>> number("2^-5", "grid")
        0.03125
    """
    parsed = _numeric(value)
    if isinstance(parsed, bool) or not isinstance(parsed, (int, float)):
        raise ComparisonError(f"{where}: expected a number (powers may be written 2^-5), got {value!r}")
    return parsed


def numbers(value: Value, where: str) -> list[float]:
    """Returns a list of numbers, which may also be written as a range of powers, first to last.

    Example:
        >>> numbers("2^-2..2^1", "grid")
        [0.25, 0.5, 1.0, 2.0]
    """
    ends = [_POWER.match(end) for end in value.split("..")] if isinstance(value, str) else []
    if len(ends) == 2 and ends[0] and ends[1] and ends[0][1] == ends[1][1]:
        return [float(ends[0][1]) ** power for power in range(int(ends[0][2]), int(ends[1][2]) + 1)]
    return [number(v, where) for v in (value if isinstance(value, list) else [value])]


def _numeric(value: Value) -> Value:
    if isinstance(value, str):
        power = _POWER.match(value)
        if power:
            return float(power[1]) ** int(power[2])
        # YAML 1.1 reads 1e-3 as a string, which nobody who writes it means.
        if _FLOAT.match(value):
            return float(value)
    return value


def expand(flat: Mapping[str, Value], where: str) -> Config:
    """Turns dotted keys into nested mappings; `method.x` is short for the x of the strategy's method.

    Example:
        >>> expand({"optimizer.init_args.lr": "2^-2", "method.clip": 1}, "overrides")["optimizer"]
        {'init_args': {'lr': 0.25}}
    """
    nested: Config = {}
    for key, value in flat.items():
        if not isinstance(key, str) or not all(key.split(".")):
            raise ComparisonError(f"{where}: {key!r} is not a configuration key like optimizer.init_args.lr")
        path = full_key(key).split(".")
        inner: Value = expand(value, f"{where}.{key}") if isinstance(value, dict) else _numeric(value)
        for part in reversed(path):
            inner = {part: inner}
        assert isinstance(inner, dict)
        nested = merge(nested, inner)
    return nested


def full_key(key: str) -> str:
    """Returns a dotted key in full: `method.clip` is `trainer.strategy.init_args.method.init_args.clip`."""
    if key.startswith("method."):
        return "trainer.strategy.init_args.method.init_args." + key.removeprefix("method.")
    return key


def merge(base: Config, overlay: Mapping[str, Value]) -> Config:
    """Returns base with overlay on top; where the overlay names another class, its arguments replace the old ones.

    Example:
        >>> merge({"a": {"b": 1, "c": 2}}, {"a": {"b": 3}})
        {'a': {'b': 3, 'c': 2}}
    """
    merged = copy.deepcopy(base)
    for key, value in overlay.items():
        below = merged.get(key)
        if isinstance(below, dict) and isinstance(value, dict) and not _other_class(below, value):
            merged[key] = merge(below, value)
        else:
            merged[key] = copy.deepcopy(value)
    return merged


def _other_class(below: Mapping[str, Value], above: Mapping[str, Value]) -> bool:
    return "class_path" in above and below.get("class_path") != above["class_path"]


def lookup(config: Mapping[str, Value], key: str) -> Value:
    """Returns the value at a dotted key, None where there is none."""
    value: Value = dict(config)
    for part in full_key(key).split("."):
        if not isinstance(value, dict):
            return None
        value = value.get(part)
    return value


def fingerprint(content: Value, length: int = 12) -> str:
    """Returns a hash of the content: equal for equal content, whatever the order of the keys."""
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=True)
    return hashlib.sha256(text.encode()).hexdigest()[:length]
