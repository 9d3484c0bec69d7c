"""What is said of an argument that a class of a configuration does not take."""

from __future__ import annotations

import inspect
import pkgutil
import re
from collections.abc import Sequence

from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from lightning_async.cli.nearest import nearest
from lightning_async.cli.parser_errors import lines_by_class

_REFUSED = re.compile(r"Option '([^']+)' is not accepted$")
_VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def misnamed_argument(lines: Sequence[str]) -> str | None:
    """Returns which argument a class does not take, and which ones it does.

    Args:
        lines: A parser's message.

    Returns:
        None if the error is about something else.

    Example:
        >>> given = "Problem with given class_path 'torch.optim.SGD':"
        >>> misnamed_argument([given, "Option 'momentm' is not accepted"]).partition(" (")[0]
        "SGD takes no 'momentm'; did you mean 'momentum'?"
    """
    for given, text in lines_by_class(lines):
        if given and (found := _REFUSED.match(text)):
            return _message(given, found[1])
    return None


def _message(path: str, argument: str) -> str | None:
    try:
        given = pkgutil.resolve_name(path)
    except (ImportError, AttributeError, ValueError):
        return None
    # The parser falls back on the base class where arguments are given to a class that nothing names.
    for base, section in ((Optimizer, "optimizer"), (LRScheduler, "lr_scheduler")):
        if given is base:
            return (
                f"there is no {argument!r} to set, for the recipe has no {section} of its own: give model.<argument> "
                f"if the module takes one, or add {section}: {{class_path: ..., init_args: ...}} to the recipe"
            )
    names = _arguments(given)
    if isinstance(given, type) and issubclass(given, (Optimizer, LRScheduler)):
        names = names[1:]  # the parameters, or the optimizer, are not in a configuration
    return f"{path.rpartition('.')[2]} takes no {argument!r}; {nearest(argument, names)}"


def _arguments(given: object) -> list[str]:
    """Names of arguments in their order, those that are handed on to the constructors of base classes included."""
    if isinstance(given, type):
        constructors = [vars(cls)["__init__"] for cls in given.__mro__ if "__init__" in vars(cls) and cls is not object]
    else:
        constructors = [given]
    names: dict[str, None] = {}
    for constructor in constructors:
        parameters = list(inspect.signature(constructor).parameters.values())[isinstance(given, type) :]
        names |= dict.fromkeys(p.name for p in parameters if p.kind not in _VARIADIC)
        if all(p.kind is not inspect.Parameter.VAR_KEYWORD for p in parameters):
            break
    return list(names)
