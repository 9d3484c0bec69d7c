"""What is said of a class that a configuration names and that does not belong where it stands."""

from __future__ import annotations

import collections.abc
import inspect
import pkgutil
import re
import sys
from collections.abc import Iterator, Sequence
from typing import get_args, get_origin, get_type_hints

from lightning.pytorch import LightningDataModule, LightningModule, Trainer
from lightning.pytorch.strategies import Strategy
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from lightning_async.cli.nearest import nearest
from lightning_async.cli.parser_errors import lines_by_class
from lightning_async.strategies.registry import REGISTERED
from lightning_async.strategies.scheduled import ScheduledStrategy

_KEY = re.compile(r'Parser key "([^"]+)":$')
_MISNAMED = (
    re.compile(r"Expected a dot import path string: (?P<name>[A-Za-z_]\w*)$"),
    re.compile(r"Import path (?P<name>[\w.]+) does not correspond to a subclass of "),
    re.compile(r"module '(?P<module>[\w.]+)' has no attribute '(?P<name>\w+)'$"),
)
_SECTIONS = {
    "model": LightningModule,
    "data": LightningDataModule,
    "optimizer": Optimizer,
    "lr_scheduler": LRScheduler,
}


def misnamed_class(lines: Sequence[str]) -> str | None:
    """Returns what is wrong with the class that an error of a parser is about, and which classes belong there.

    Args:
        lines: The parser's message.

    Returns:
        None if the error is about something else.

    Example:
        >>> misnamed_class(['Parser key "optimizer":', "Expected a dot import path string: AdamV"]).partition(" (")[0]
        "there is no Optimizer 'AdamV'; did you mean 'Adam'?"
    """
    key, owner = "", ""
    for given, text in lines_by_class(lines):
        if found := _KEY.search(text):
            key, owner = found[1], given
        elif found := next(filter(None, (pattern.match(text) for pattern in _MISNAMED)), None):
            module, name = found.groupdict().get("module"), found["name"]
            path = name if module is None else f"{module}.{name}"
            if module is not None and path != given:
                continue  # it is not the class that is missing, but something that its module imports
            allowed = _allowed(owner, key)
            if allowed and not ("." in path and _is_one_of(path, allowed)):  # otherwise it is about something else
                return _message(path, allowed, owner, key)
    return None


def _is_one_of(path: str, allowed: Sequence[type]) -> bool:
    cls = _class_called(path)
    return cls is not None and issubclass(cls, tuple(allowed))


def _message(path: str, allowed: Sequence[type], owner: str, key: str) -> str:
    kind = " or ".join(sorted(cls.__name__ for cls in allowed))
    known = sorted({cls.__name__ for base in allowed for cls in _concrete(base)})
    if path in REGISTERED and key == "trainer.strategy":
        return (
            f"{path!r} is a strategy by name, whose arguments are fixed: to set them, give --config "
            f"configs/methods/{path}.yaml in its place"
        )
    cls = _class_called(path)
    if cls is None or _is_one_of(path, allowed):
        return f"there is no {kind} {path!r}; {nearest(path.rpartition('.')[2], known)}"
    taking = _strategies_that_take(cls, key) if owner and issubclass(_resolve(owner), Strategy) else []
    if taking:
        here = owner.rpartition(".")[2]
        return f"{path!r} is no {kind}: {' and '.join(taking)} takes it, {here} one of {', '.join(known)}"
    return f"{path!r} is no {kind}; known: {', '.join(known)}"


def _allowed(owner: str, key: str) -> list[type]:
    """The classes whose subclasses an argument takes; none if it takes no classes."""
    if owner:
        return _argument_classes(_resolve(owner), key)
    if key.startswith("trainer."):
        return _argument_classes(Trainer, key.removeprefix("trainer."))
    return [_SECTIONS[key]] if key in _SECTIONS else []


def _resolve(path: str) -> type:
    cls = pkgutil.resolve_name(path)
    return cls if isinstance(cls, type) else type(cls)


def _argument_classes(owner: type, name: str) -> list[type]:
    for cls in owner.__mro__:  # an argument may be handed on to the constructor of a base
        if "__init__" in vars(cls):
            hints = get_type_hints(vars(cls)["__init__"])
            if name in hints:
                return list(dict.fromkeys(_classes(hints[name])))
    return []


def _classes(hint: object) -> Iterator[type]:
    if get_origin(hint) is collections.abc.Callable:
        yield from _classes(get_args(hint)[-1])  # a class stands for the function that makes its instances
    elif get_args(hint):
        for part in get_args(hint):
            yield from _classes(part)
    elif isinstance(hint, type) and hint.__module__ not in ("builtins", "collections.abc", "pathlib"):
        yield hint


def _concrete(base: type[object]) -> Iterator[type[object]]:
    if not (inspect.isabstract(base) or base.__name__.startswith("_") or "<locals>" in base.__qualname__):
        yield base
    for cls in base.__subclasses__():
        yield from _concrete(cls)


def _class_called(path: str) -> type | None:
    """The class of this path, or of this name in this package."""
    module, _, name = path.rpartition(".")
    modules = [module] if module else [m for m in sys.modules if m.partition(".")[0] == "lightning_async"]
    found: list[object] = [getattr(sys.modules.get(m), name, None) for m in modules]
    return next((cls for cls in found if isinstance(cls, type)), None)


def _strategies_that_take(cls: type, argument: str) -> list[str]:
    strategies = [s for s in _concrete(ScheduledStrategy) if issubclass(cls, tuple(_argument_classes(s, argument)))]
    return sorted(strategy.__name__ for strategy in strategies)
