"""Nested configuration mappings: reading, merging, dotted keys, and a fingerprint of their content."""

from __future__ import annotations

import copy
import hashlib
import json
import math
import re
from collections.abc import Mapping
from typing import TypeAlias

Value: TypeAlias = "bool | int | float | str | list[Value] | dict[str, Value] | None"
Config: TypeAlias = "dict[str, Value]"

_POWER = re.compile(r"^\s*(\d+(?:\.\d+)?)\s*(?:\^|\*\*)\s*(-?\d+)\s*$")
# Sections of a configuration that are a class and its arguments.
_CLASSES = ("model", "data", "optimizer", "lr_scheduler")
_FLOAT = re.compile(r"^[-+]?(\d+\.?\d*|\.\d+)[eE][-+]?\d+$")


class ComparisonError(ValueError):
    """A comparison file, or the folder it writes to, is not usable; the message says what to change."""


def number(value: Value, where: str) -> float:
    """Returns a number that may also be written as a power, `2^-5` or `2**-5`, as step-size grids are in papers.

    Example:
        >>> number("2^-5", "grid")
        0.03125
    """
    parsed = _numeric(value, where)
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
        first, last = _exponent(ends[0][2], where), _exponent(ends[1][2], where)
        return [_power(ends[0][1], power, where) for power in range(first, last + 1)]
    parsed = [number(v, where) for v in (value if isinstance(value, list) else [value])]
    for entry in parsed:
        if not math.isfinite(entry):
            raise ComparisonError(f"{where}: must be finite, got {entry}")
    return parsed


def _exponent(text: str, where: str) -> int:
    if len(text) > 5:
        raise ComparisonError(f"{where}: the exponent {text[:20]} is out of range; use one from -1000 to 1000")
    return int(text)


def _power(base: str, exponent: int, where: str) -> float:
    try:
        value: float = float(base) ** exponent
    except (OverflowError, ZeroDivisionError):
        value = math.inf
    if not math.isfinite(value) or (value == 0 and float(base) != 0):
        raise ComparisonError(f"{where}: {base[:20]}^{exponent} is out of the range of numbers, about 1e-308 to 1e308")
    return value


def _numeric(value: Value, where: str) -> Value:
    if isinstance(value, str):
        power = _POWER.match(value)
        if power:
            return _power(power[1], _exponent(power[2], where), where)
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
        inner: Value = expand(value, f"{where}.{key}") if isinstance(value, dict) else _numeric(value, f"{where}.{key}")
        for part in reversed(path):
            inner = {part: inner}
        assert isinstance(inner, dict)
        nested = merge(nested, inner)
    return nested


def full_key(key: str) -> str:
    """Returns a dotted key in full.

    Example:
        >>> full_key("method.clip")
        'trainer.strategy.init_args.method.init_args.clip'
        >>> full_key("optimizer.lr"), full_key("model.class_path")
        ('optimizer.init_args.lr', 'model.class_path')
    """
    section, _, below = key.partition(".")
    where = "trainer.strategy.init_args.method" if section == "method" else section
    if not below or (section != "method" and section not in _CLASSES):
        return key
    of_class = below.partition(".")[0] in ("class_path", "init_args", "dict_kwargs")
    return f"{where}.{below}" if of_class else f"{where}.init_args.{below}"


def merge(base: Config, overlay: Mapping[str, Value]) -> Config:
    """Returns base with overlay on top; where the overlay names another class, its arguments replace the old ones.

    Arguments of a class that was not named yet are kept.

    Example:
        >>> merge({"a": {"b": 1, "c": 2}}, {"a": {"b": 3}})
        {'a': {'b': 3, 'c': 2}}
        >>> merge({"a": {"class_path": "A", "init_args": {"b": 1}}}, {"a": {"class_path": "B"}})
        {'a': {'class_path': 'B'}}
        >>> merge({"a": {"init_args": {"b": 1}}}, {"a": {"class_path": "B"}})
        {'a': {'init_args': {'b': 1}, 'class_path': 'B'}}
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
    return "class_path" in above and "class_path" in below and below["class_path"] != above["class_path"]


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
