"""The repr of a model or a method: its arguments in full.

It is a fingerprint: a resumed run compares it to know that it continues with the same worker times, method and data.
"""

from __future__ import annotations

import dis
import hashlib
import inspect
import re
import sys
from collections import OrderedDict
from dataclasses import Field
from enum import Enum
from functools import cached_property, partial
from operator import attrgetter
from reprlib import recursive_repr
from types import CodeType, FunctionType, ModuleType
from typing import Any, TypeAlias

import numpy as np

_SHOWN_IN_FULL = 32
_ATOMS = (bool, int, float, complex, str, bytes, type, type(None))
_ANY_NUMBER = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
_TAKES_MORE = inspect.CO_VARARGS | inspect.CO_VARKEYWORDS
_SAYS_LITTLE = re.compile(r"\bat 0x[0-9a-fA-F]+|\.\.\.")  # an address differs in every process, and an ellipsis hides

_Known: TypeAlias = dict[int, tuple[str | None, object]]
"""Functions and objects by identity: their text, None if it is not finished; and themselves, so that they live on."""


class Described:
    """Has the repr, equality and hash of its constructor arguments, which are kept in attributes of their names.

    Of `*args` and `**kwargs` that are not kept, those of the next constructor, which they are passed on to, are taken.
    """

    @recursive_repr()
    def __repr__(self) -> str:
        """The class with its arguments.

        Raises:
            TypeError: if an argument is not kept in an attribute of its name.
        """
        names = _argument_names(self)
        missing = [name for name in names if not hasattr(self, name)]
        if missing:
            raise TypeError(
                f"{type(self).__name__} is shown and compared by its constructor's arguments, so that each must be "
                f"kept in an attribute of its name, but there is none for {', '.join(missing)}: set "
                f"{', '.join(f'self.{name}' for name in missing)} in __init__"
            )
        arguments = ", ".join(f"{name}={describe(getattr(self, name))}" for name in names)
        return f"{type(self).__name__}({arguments})"

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and repr(self) == repr(other)

    def __hash__(self) -> int:
        return hash(repr(self))


def _argument_names(described: Described) -> list[str]:
    names: list[str] = []
    passed_on: list[str] = []
    for base in type(described).__mro__[: type(described).__mro__.index(Described)]:
        if "__init__" in vars(base):
            _, *parameters = inspect.signature(vars(base)["__init__"]).parameters.values()
            passed_on = [p.name for p in parameters if p.kind in _ANY_NUMBER and not hasattr(described, p.name)]
            names += [p.name for p in parameters if p.name not in passed_on]
            if not passed_on:
                break
    return list(dict.fromkeys(names + passed_on))


def describe(value: object) -> str:
    """The same text for equal values, different text for different ones, in every process.

    Long sequences, tensors, and functions that cannot be imported by name enter through a digest; that of a function
    has its code, its defaults, and the values of the variables that it finds outside. Classes, modules and functions
    that can be imported are told by name. Other objects are told by their attributes, also those that their `repr`
    leaves out; not by cached properties, fields of a dataclass that are not compared, and what `__getstate__` drops. A
    torch module is told by its repr, and by its weights if it is frozen: others change while it is trained.
    """
    return _describe(value, {})


def digest(text: str) -> str:
    """Sixteen hexadecimal digits that stand for `text`."""
    return _digest(text.encode())


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]


def _describe(value: object, known: _Known) -> str:
    if isinstance(value, (*_ATOMS, Enum, Described)):
        return repr(value)
    if isinstance(value, np.ndarray):
        return _describe_array(value, known)
    if isinstance(value, (list, tuple)):
        shown = _joined([_describe(item, known) for item in value], alone="," if isinstance(value, tuple) else "")
        return (f"[{shown}]" if isinstance(value, list) else f"({shown})") + _further(value, known)
    if isinstance(value, dict):
        items = [(_describe(key, known), _describe(item, known)) for key, item in value.items()]
        if not isinstance(value, OrderedDict):  # others are equal in any order
            items.sort()
        return "{" + ", ".join(f"{key}: {item}" for key, item in items) + "}" + _further(value, known)
    if isinstance(value, (set, frozenset)):  # in an order that does not depend on hashes
        return f"{type(value).__name__}({_joined(sorted(_describe(item, known) for item in value))})"
    if isinstance(value, partial):
        parts = (value.func, value.args, value.keywords)
        return f"partial({', '.join(_describe(part, known) for part in parts)})"
    if isinstance(value, ModuleType):
        return f"module {value.__name__}"
    if "torch" in sys.modules and isinstance(value, sys.modules["torch"].Tensor):
        return _describe_tensor(value)
    if id(value) not in known:
        known[id(value)] = None, value
        known[id(value)] = _describe_function(value, known) or _describe_object(value, known), value
    text, _ = known[id(value)]
    if text is None:  # it holds itself
        text = f"#{[key for key, (finished, _) in known.items() if finished is None].index(id(value))}"
    return text


def _joined(items: list[str], alone: str = "") -> str:
    if len(items) > _SHOWN_IN_FULL:
        return f"{items[0]}, {items[1]}, ..., {items[-1]}; {len(items)} values, sha256 {digest(', '.join(items))}"
    return ", ".join(items) + (alone if len(items) == 1 else "")


def _describe_array(array: np.ndarray[Any, Any], known: _Known) -> str:
    if array.dtype.hasobject or array.size <= _SHOWN_IN_FULL:
        return f"array({_describe(array.tolist(), known)}, {array.dtype})"
    return f"array({array.dtype}, shape {array.shape}, sha256 {_digest(array.tobytes())})"


def _describe_tensor(tensor: Any) -> str:  # torch.Tensor, which this module, being imported by simulations, cannot name
    dense = tensor.detach().cpu().to_dense().resolve_conj().resolve_neg().contiguous()
    content = dense.reshape(-1).view(sys.modules["torch"].uint8).numpy().tobytes()
    return f"tensor({tensor.dtype}, shape {tuple(tensor.shape)}, sha256 {_digest(content)})"


def _describe_function(function: Any, known: _Known) -> str | None:
    """A function of any kind; None for what is none."""
    if inspect.ismethod(function):
        return f"{_describe(function.__func__, known)} of {_describe(function.__self__, known)}"
    if inspect.isbuiltin(function):
        owner = function.__self__
        name = f"{function.__module__ or 'builtins'}.{function.__qualname__}"
        return name if owner is None or isinstance(owner, ModuleType) else f"{name} of {_describe(owner, known)}"
    if not inspect.isfunction(function):
        if callable(function) and inspect.isfunction(getattr(function, "__wrapped__", None)):  # such as by lru_cache
            return f"{type(function).__qualname__}({_describe(function.__wrapped__, known)})"
        return None
    name = f"{function.__module__}.{function.__qualname__}"
    if _can_be_imported(function):
        return name
    # A lambda, a function made by another one or by a script: its name says nothing about what it does.
    names = sorted(_global_names(function.__code__) & function.__globals__.keys())
    parts = [
        _code(function.__code__, known),
        *[_describe(_content(cell), known) for cell in function.__closure__ or ()],
        _describe(function.__defaults__, known),
        _describe(dict(sorted((function.__kwdefaults__ or {}).items())), known),
        *[f"{name}={_describe(function.__globals__[name], known)}" for name in names],
    ]
    return f"{name} {digest('; '.join(parts))}"


def _can_be_imported(function: FunctionType) -> bool:
    if function.__module__ == "__main__" or function.__module__ not in sys.modules:
        return False
    try:
        return attrgetter(function.__qualname__)(sys.modules[function.__module__]) is function
    except AttributeError:
        return False


def _content(cell: Any) -> object:
    try:
        return cell.cell_contents
    except ValueError:  # a variable that has no value yet
        return None


def _code(code: CodeType, known: _Known) -> str:
    """What a piece of code does, wherever it stands, and whatever its variables are called that are no arguments."""
    constants = [_code(c, known) if isinstance(c, CodeType) else _describe(c, known) for c in code.co_consts]
    arguments = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    kind = (code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags & _TAKES_MORE, arguments, code.co_names)
    handlers = getattr(code, "co_exceptiontable", b"")  # Python 3.11
    return f"{code.co_code.hex()} {handlers.hex()} {kind} [{'; '.join(constants)}]"


def _global_names(code: CodeType) -> set[str]:
    """Global variables that are read by a piece of code, or by a function within it."""
    names = {str(step.argval) for step in dis.get_instructions(code) if step.opname in ("LOAD_GLOBAL", "LOAD_NAME")}
    return names.union(*(_global_names(inner) for inner in code.co_consts if isinstance(inner, CodeType)))


def _describe_object(value: object, known: _Known) -> str:
    kind = type(value)
    if "__dataclass_fields__" in vars(kind):
        return _describe_dataclass(value, known)
    name = f"{kind.__module__}.{kind.__qualname__}"
    text = _own_repr(value)
    if "torch" in sys.modules and isinstance(value, sys.modules["torch"].nn.Module):
        return f"{text or name}{_frozen_weights(value, known)}"
    slots = any(vars(base).get("__slots__") for base in kind.__mro__)
    if hasattr(value, "__dict__") and not slots and not _changed(kind, "__reduce__", "__reduce_ex__", "__getstate__"):
        state: object = _attributes(value)
    else:
        if text and not getattr(value, "__dict__", None) and (not slots or _changed(kind, "__reduce__")):
            return text  # such as a path, or an object of the standard library or of an extension
        try:
            state = value.__reduce_ex__(2)
        except Exception:  # what refuses to be pickled may do so with any error
            state = _attributes(value)
    if not text:
        return f"{name}({_describe(state, known)})" if state is not None else name
    return f"{text} with {_describe(state, known)}" if state else text


def _frozen_weights(module: Any, known: _Known) -> str:
    if any(parameter.requires_grad for parameter in module.parameters()):
        return ""
    return f" with {_describe(dict(module.state_dict()), known)}"


def _describe_dataclass(value: object, known: _Known) -> str:
    """As its generated repr, but with all that distinguishes it from others."""
    fields: dict[str, Field[object]] = vars(type(value))["__dataclass_fields__"]
    compared = {name: getattr(value, name, None) for name, field in fields.items() if field.compare}
    others = {name: held for name, held in (_attributes(value) or {}).items() if name not in fields}
    items = [f"{name}={_describe(held, known)}" for name, held in {**compared, **others}.items()]
    return f"{type(value).__qualname__}({', '.join(items)})"


def _own_repr(value: object) -> str:
    """The repr of its class if it has one that says something, else nothing."""
    kind = type(value)
    if kind.__repr__ is object.__repr__:
        return ""
    try:
        text = repr(value)
    except Exception:  # it may need what is not there yet
        return ""
    return "" if _SAYS_LITTLE.search(text) else text


def _changed(kind: type, *methods: str) -> bool:
    """Whether a class has methods of its own in the place of those of `object`."""
    return any(getattr(kind, method, None) is not getattr(object, method, None) for method in methods)


def _attributes(value: object) -> dict[str, object] | None:
    """Attributes without what is computed from others when it is asked for; None if there can be none."""
    if not hasattr(value, "__dict__"):
        return None
    return {
        name: held
        for name, held in vars(value).items()
        if not isinstance(getattr(type(value), name, None), cached_property)
    }


def _further(container: object, known: _Known) -> str:
    """What a container of a derived class has beside its items."""
    attributes = _attributes(container)
    return f" with {_describe(attributes, known)}" if attributes else ""
