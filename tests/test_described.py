"""Descriptions: different for what does different things, the same in every process for what is the same."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from fractions import Fraction
from functools import cached_property, lru_cache, partial
from pathlib import Path

import numpy as np
import pytest
import torch

from lightning_async.described import Described, describe
from lightning_async.methods import LOSCAR
from lightning_async.simulation import Link

Numbers = Callable[..., object]


class Slotted:
    __slots__ = ("k",)

    def __init__(self, k: int) -> None:
        self.k = k

    def __call__(self, round: int, d: int) -> range:
        return range(0, d, self.k)


class Plain:
    def __init__(self, k: int) -> None:
        self.k = k

    def numbers(self, round: int, d: int) -> range:
        return range(0, d, self.k)


class Abbreviated(Plain):
    def __repr__(self) -> str:
        return "Abbreviated(...)"


class Color(Enum):
    RED = 1


class Hiding(Plain):
    def __repr__(self) -> str:
        return "Hiding()"


class Extended(list[int]):
    def __init__(self, k: int) -> None:
        super().__init__([1, 2])
        self.k = k


class Keyed(dict[str, int]):
    def __init__(self, k: int) -> None:
        super().__init__(a=1)
        self.k = k


@dataclass(frozen=True)
class Fields:
    k: int
    hidden: int = field(default=0, repr=False)
    cache: int = field(default=0, compare=False)

    @cached_property
    def double(self) -> int:
        return 2 * self.k


class MoreThanFields(Fields):
    def __init__(self, k: int) -> None:
        super().__init__(0)
        object.__setattr__(self, "more", k)


@dataclass(slots=True)
class SlottedFields:
    k: int = field(repr=False)


class Reduced:
    """Is told by what it would be pickled as, like an object whose state is in C."""

    def __init__(self, k: int) -> None:
        self._hidden = [k]

    def __repr__(self) -> str:
        return "Reduced()"

    def __reduce__(self) -> tuple[type, tuple[int]]:
        return Reduced, (self._hidden[0],)


def frozen(k: int) -> torch.nn.Module:
    module = torch.nn.Linear(2, 2).requires_grad_(False)
    module.weight.fill_(k)
    module.bias.fill_(0)
    return module


def keyword_only(k: int) -> Numbers:
    def numbers(round, d, *, k=k):
        return range(0, d, k)

    return numbers


def default(k: int) -> Numbers:
    return lambda round, d, k=k: range(0, d, k)


def enclosed(value: object) -> Numbers:
    return lambda round, d: value


def within_a_function(k: int) -> Numbers:
    def numbers(round, d):
        return list(filter(lambda i: i % 2 == k, range(d)))

    return numbers


def of_a_global(k: int) -> Numbers:
    space: dict[str, object] = {"__name__": "__main__", "k": k}
    exec("numbers = lambda round, d: [i for i in range(d) if (lambda: i % k == 0)()]", space)
    return space["numbers"]  # type: ignore[return-value]


def of_a_script(k: int) -> Numbers:
    space: dict[str, object] = {"__name__": "__main__"}
    exec(f"def numbers(round, d):\n    return range(0, d, {k})", space)
    return space["numbers"]  # type: ignore[return-value]


def cached(k: int) -> Numbers:
    return lru_cache(lambda round, d: range(0, d, k))


def recursive(k: int) -> Numbers:
    def numbers(round, d):
        return [*numbers(round, d - k), d] if d > 0 else []

    return numbers


def changed(dtype: torch.dtype) -> Callable[[int], torch.Tensor]:
    """5000 numbers of which the k-th, in the middle, is another one."""

    def make(k: int) -> torch.Tensor:
        numbers = torch.arange(5000).to(dtype)
        numbers[2000 + k] = 0
        return numbers

    return make


MAKERS: dict[str, Callable[[int], object]] = {
    "keyword-only default": keyword_only,
    "default": default,
    "closure": enclosed,
    "nested function": within_a_function,
    "global variable": of_a_global,
    "function of a script": of_a_script,
    "lru_cache": cached,
    "recursion": recursive,
    "slots": Slotted,
    "attributes": Plain,
    "bound method": lambda k: Plain(k).numbers,
    "bound method of a built-in": lambda k: [k].index,
    "partial": lambda k: partial(default(2), k=k),
    "partial of a lambda": lambda k: partial(default(k), 0),
    "an abbreviating repr": Abbreviated,
    "closure over a tensor": lambda k: enclosed(changed(torch.int64)(k)),
    "bfloat16 tensor": changed(torch.bfloat16),
    "complex tensor": lambda k: changed(torch.complex64)(k).conj(),
    "scalar tensor": torch.tensor,
    "transposed tensor": lambda k: torch.tensor([[1, 2], [3, k]]).T,
    "sparse tensor": lambda k: torch.tensor([0, 0, k]).to_sparse(),
    "closure over an array": lambda k: enclosed(changed(torch.int64)(k).numpy()),
    "array of objects": lambda k: np.array([default(k)] * 40),
    "set of strings": lambda k: {"a", "b", "c", str(k)},
    "numpy generator": np.random.default_rng,
    "dictionary": lambda k: {"a": Slotted(k)},
    "ordered dictionary": lambda k: OrderedDict(sorted({"a": 2, "b": k}.items(), key=lambda item: item[1])),
    "Python generator": random.Random,
    "a hiding repr": Hiding,
    "attribute of a list": Extended,
    "attribute of a dictionary": Keyed,
    "field of a dataclass": Fields,
    "field that is not shown": lambda k: Fields(0, hidden=k),
    "attribute beside fields": MoreThanFields,
    "dataclass with slots": SlottedFields,
    "a hiding repr, and a state of its own": Reduced,
    "frozen module": frozen,
}


@pytest.mark.parametrize("name", MAKERS)
def test_what_differs_has_another_text(name: str) -> None:
    assert describe(MAKERS[name](1)) != describe(MAKERS[name](3))


@pytest.mark.parametrize("name", MAKERS)
def test_what_is_made_in_the_same_way_has_the_same_text(name: str) -> None:
    assert describe(MAKERS[name](3)) == describe(MAKERS[name](3))


def test_texts_are_the_same_in_another_process() -> None:
    program = "from tests.test_described import *\nprint('\\n'.join(describe(make(3)) for make in MAKERS.values()))"
    root = Path(__file__).parent.parent
    texts = {
        subprocess.run(
            [sys.executable, "-c", program],
            cwd=root,
            env={**os.environ, "PYTHONPATH": str(root), "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for hash_seed in ("1", "2")
    }
    assert len(texts) == 1
    assert texts.pop().count("\n") >= len(MAKERS)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (lambda r, d: [i for i in range(d) if i % 2], lambda r, d: [i for i in range(d) if i % 3]),
        (lambda r, d: np.sin(d), lambda r, d: np.cos(d)),
        (lambda r, d, *more: d, lambda r, d: d),
        (lambda r, d, *, k: k, lambda r, d, *, d_: d_),
        (lambda r, d: r in {"a", "b"}, lambda r, d: r in {"a", "c"}),
        (lambda r, d: [lambda: [1 for _ in d]], lambda r, d: [lambda: [2 for _ in d]]),
    ],
    ids=["comprehension", "name", "more arguments", "keyword", "set of constants", "twice nested"],
)
def test_functions_of_one_name_with_other_code_have_another_text(one: Numbers, other: Numbers) -> None:
    other.__qualname__ = one.__qualname__
    assert describe(one) != describe(other)


def test_variables_may_have_other_names() -> None:
    one, other = (lambda d: [i for i in d]), (lambda d: [j for j in d])  # noqa: C416
    other.__qualname__ = one.__qualname__
    assert describe(one) == describe(other)


def test_a_function_that_can_be_imported_is_told_by_name() -> None:
    assert describe(describe) == "lightning_async.described.describe"


def test_two_equal_values_and_one_value_twice_have_the_same_text() -> None:
    one, function = Slotted(2), default(2)
    assert describe([one, one, function, function]) == describe([Slotted(2), Slotted(2), default(2), default(2)])


def test_equal_dictionaries_have_the_same_text() -> None:
    assert describe({"a": 1, "b": {"c": 2, "d": 3}}) == describe({"b": {"d": 3, "c": 2}, "a": 1})


def test_what_was_computed_meanwhile_changes_nothing() -> None:
    used = Fields(1)
    assert used.double == 2
    assert describe(used) == describe(Fields(1, cache=5)) == "Fields(k=1, hidden=0)"


def test_training_changes_nothing() -> None:
    one, other = torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)
    assert describe(one) == describe(other) == repr(one)


@pytest.mark.parametrize(
    "value", [Link(0.5, 100.0), Path("a/b"), Fraction(1, 3), Color.RED, slice(1, 2), torch.float32]
)
def test_what_its_repr_shows_in_full_is_told_by_it(value: object) -> None:
    assert describe(value) == repr(value)


class Broken(Plain):
    def __repr__(self) -> str:
        raise RuntimeError

    def __reduce__(self) -> str:
        raise RuntimeError


def test_what_can_neither_be_shown_nor_pickled_is_told_by_its_attributes() -> None:
    assert describe(Broken(1)) == "tests.test_described.Broken({'k': 1})"


@pytest.mark.parametrize("dtype", [np.int64, np.float32])
@pytest.mark.parametrize("size", [3, 3000])
def test_arrays_of_other_dtypes_have_another_text(dtype: type, size: int) -> None:
    assert describe(np.zeros(size, dtype)) != describe(np.zeros(size))


def test_arrays_of_other_shapes_have_another_text() -> None:
    assert describe(np.zeros((2, 50))) != describe(np.zeros((50, 2)))


def test_a_mask_may_hold_the_method_that_it_belongs_to() -> None:
    held: list[LOSCAR] = []
    held.append(LOSCAR(0.5, compute_window=1.0, mask=lambda round, d: range(int(held[0].sparsity * d))))
    assert repr(held[0]) == repr(held[0])


class Forgetful(Described):
    def __init__(self, kept: int, window: float, share: float) -> None:
        self.kept = kept


def test_an_argument_that_is_not_kept_is_named() -> None:
    with pytest.raises(TypeError, match=r"Forgetful .*none for window, share: set self\.window, self\.share"):
        repr(Forgetful(1, 2.0, 3.0))


class Slower(Forgetful):
    def __init__(self, factor: float, *args: float, **kwargs: float) -> None:
        super().__init__(*args, **kwargs)
        self.factor = factor


class Attentive(Forgetful):
    def __init__(self, kept: int) -> None:
        super().__init__(kept, 1.0, 2.0)


class Passing(Attentive):
    def __init__(self, factor: float, *args: int, **kwargs: int) -> None:
        super().__init__(*args, **kwargs)
        self.factor = factor


class Swallowing(Described):
    def __init__(self, **options: int) -> None:
        self._options = options


class Keeping(Described):
    def __init__(self, **options: int) -> None:
        self.options = options


def test_arguments_that_are_passed_on_are_those_of_the_next_constructor() -> None:
    assert repr(Passing(2.0, kept=3)) == repr(Passing(2.0, 3)) == "Passing(factor=2.0, kept=3)"
    assert Passing(2.0, 3) != Passing(2.0, 4)


def test_an_argument_that_is_passed_on_and_not_kept_is_named() -> None:
    with pytest.raises(TypeError, match=r"Slower .*none for window, share: set"):
        repr(Slower(0.5, 1, 2.0, 3.0))


def test_arguments_of_any_name_are_kept_together_or_named() -> None:
    assert repr(Keeping(a=1)) == "Keeping(options={'a': 1})"
    with pytest.raises(TypeError, match=r"none for options: set self\.options"):
        repr(Swallowing(a=1))
