"""Messages of a configuration that is not usable, reduced to what is wrong and where."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from lightning_async.cli.argument_names import misnamed_argument
from lightning_async.cli.class_names import misnamed_class
from lightning_async.cli.parser_errors import lines_by_class

_FRAME = re.compile(r"Given value|Subtypes:|Errors:|Does not validate against|Problem with given class_path")
_KEY = re.compile(r'Parser key "([^"]+)":$')
_ALTERNATIVE = re.compile(r"Expected a (<class '(NoneType|str)'>|path |dot import path )")
_MODULE = re.compile(r"No module named '([\w.]+)'$")
_CHOICE = re.compile(r"Expected a typing\.Literal\[(.*)\](?:\. Got value: (.*))?$")
_NUMBER = re.compile(r"Expected a <class '(?:int|float)'>$")
_GIVEN = re.compile(r"Given value: (.*)$")
_EXPECTED = re.compile(r"Expected a <class '([\w.]+)'>(?:\. Got value: (.*))?")


def innermost(error: Exception, config: Mapping[str, object]) -> str:
    """Returns the innermost message of an error in a configuration, with the dotted key that it is about.

    A parser reports an error in an argument of an argument once for each of them, and every other type that would have
    been allowed there.

    Args:
        error: What parsing or building raised.
        config: The configuration.

    Example:
        >>> innermost(ValueError("slowdown must be at least 1, got 0"), {"times": {"init_args": {"slowdown": 0}}})
        'times.slowdown must be at least 1, got 0'
    """
    keys: list[str] = []
    messages: list[str] = []
    for line in str(error).splitlines():
        text = line.strip().removeprefix("- ")
        key = _KEY.search(text)
        if key:
            keys.append(key[1])
        elif text and not _FRAME.match(text):
            messages.append(text)
    told = [text for text in messages if not _ALTERNATIVE.match(text)] or messages
    if not told:
        return str(error)
    if len(messages) == len(str(error).splitlines()):  # nothing around it
        told = [str(error)]
    lines = str(error).splitlines()
    message = (
        misnamed_class(lines)
        or misnamed_argument(lines)
        or _missing_module(lines)
        or _not_a_choice(told[0], messages, lines)
        or _EXPECTED.sub(lambda found: f"expected {found[1]}" + (f", got {found[2]!r}" if found[2] else ""), told[0])
    )
    if keys:
        return f"{_short('.'.join(keys))}: {message}"
    found = list(_places(config, message.partition(" ")[0]))
    if len(found) > 1:
        found = [(place, value) for place, value in found if message.endswith(f"got {value!r}")]
    places = {_short(place) for place, _ in found}
    return f"{places.pop()} {message.partition(' ')[2]}" if len(places) == 1 else message


def _not_a_choice(told: str, messages: Sequence[str], lines: Sequence[str]) -> str | None:
    """What is said where one of several words is expected, or a number in their place."""
    if not (choice := _CHOICE.match(told)):
        return None
    given = choice[2] or next((found[1] for line in lines if (found := _GIVEN.match(line.strip()))), None)
    number = " or a number" if any(map(_NUMBER.match, messages)) else ""
    return f"expected one of {choice[1]}{number}" + ("" if given is None else f", got {given!r}")


def _missing_module(lines: Sequence[str]) -> str | None:
    """What is said where the module of a class is not found; one that it imports in its turn is another matter."""
    for given, text in lines_by_class(lines):
        if (found := _MODULE.match(text)) and given.startswith(f"{found[1]}."):
            return f"{found[0]}: classes are looked for in the current folder and in installed packages"
    return None


def _places(config: Mapping[str, object], name: str, prefix: str = "") -> Iterator[tuple[str, object]]:
    """The dotted keys whose last part is this name, with their values."""
    for key, value in config.items():
        if key == name:
            yield f"{prefix}{key}", value
        if isinstance(value, Mapping):
            yield from _places(value, name, f"{prefix}{key}.")


def _short(key: str) -> str:
    return key.replace("init_args.", "").removeprefix("trainer.strategy.")
