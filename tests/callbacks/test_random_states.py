"""Random generators are found wherever objects hold them, and their states are put back."""

import random
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import ConcatDataset, Subset, TensorDataset

from lightning_async.callbacks.random_states import kept_states, random_generators

named_in_this_module = np.random.default_rng(0)


class Holder:
    def __init__(self, held: Any) -> None:
        self.held = held


class Slotted:
    __slots__ = ("held",)

    def __init__(self, held: Any) -> None:
        self.held = held


def of_class(rng: Any) -> Any:
    return type("OfClass", (), {"rng": rng})()


def enclosing(rng: Any) -> Any:
    return lambda: rng


def by_default(rng: Any) -> Any:
    def function(x: float, *, rng: Any = rng) -> Any:
        return rng

    return function


def bound_method(rng: Any) -> Any:
    class Owner(Holder):
        def collate(self) -> None:
            pass

    return Owner(rng).collate


def module(rng: Any) -> Any:
    inner = torch.nn.Identity()
    inner.rng = rng
    return torch.nn.Sequential(torch.nn.Linear(2, 2), inner)


def cyclic(rng: Any) -> Any:
    holder = Holder([rng])
    holder.itself = holder  # type: ignore[attr-defined]
    holder.held.append(holder.held)
    return holder


DATA = TensorDataset(torch.zeros(3))
WAYS = {
    "itself": lambda rng: rng,
    "attribute": Holder,
    "slot": Slotted,
    "class": of_class,
    "list, tuple and dict": lambda rng: Holder([(0, {"a": rng})]),
    "transform of a dataset of a subset": lambda rng: Subset(Holder(Holder(rng)), [0]),  # type: ignore[arg-type]
    "part of a concatenation": lambda rng: ConcatDataset([DATA, Subset(of_dataset(rng), [0])]),
    "closure": enclosing,
    "default": by_default,
    "partial": lambda rng: partial(print, rng),
    "bound method": bound_method,
    "builtin bound method": lambda rng: Holder(rng.normal),
    "module": module,
    "cycle": cyclic,
}


def of_dataset(rng: Any) -> TensorDataset:
    data = TensorDataset(torch.zeros(3))
    data.transform = Holder([rng])  # type: ignore[attr-defined]
    return data


@pytest.mark.parametrize("way", WAYS)
def test_a_generator_is_found(way: str) -> None:
    rng = np.random.default_rng(0)
    assert any(found is rng for found in random_generators([WAYS[way](rng)]))


def test_a_generator_that_a_function_names_in_its_module_is_found() -> None:
    class Transform:
        def __call__(self) -> float:
            return named_in_this_module.normal()

    assert any(found is named_in_this_module for found in random_generators([Holder(Transform())]))


def test_a_generator_with_two_owners_is_found_once() -> None:
    rng = random.Random(0)
    assert random_generators([Holder(rng), [rng]]) == [rng]


def test_what_is_ignored_is_not_looked_into() -> None:
    ignored = Holder(random.Random(0))
    assert random_generators([Holder(ignored)], ignore=[ignored]) == []


def test_long_lists_are_taken_for_data() -> None:
    assert random_generators([Holder([0] * 10_000 + [random.Random(0)])]) == []


KINDS = {
    "torch": (lambda: torch.Generator().manual_seed(0), lambda rng: torch.randn((), generator=rng).item()),
    "numpy": (lambda: np.random.default_rng(0), lambda rng: rng.integers(2**20, dtype=np.uint32)),
    "bits": (lambda: np.random.PCG64(0), lambda rng: rng.random_raw()),
    "legacy numpy": (lambda: np.random.RandomState(0), lambda rng: rng.randn()),
    "python": (lambda: random.Random(0), lambda rng: rng.gauss(0, 1)),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("draws_before", [0, 1])  # some generators keep half of a draw for the next one
def test_states_are_put_back(kind: str, draws_before: int) -> None:
    make, draw = KINDS[kind]
    rng: Any = make()
    for _ in range(draws_before):
        draw(rng)
    with kept_states(random_generators([rng])):
        inside = [draw(rng) for _ in range(3)]
    assert [draw(rng) for _ in range(3)] == inside


def test_states_are_put_back_after_an_error() -> None:
    rng = random.Random(0)
    expected = random.Random(0).random()
    with pytest.raises(ZeroDivisionError), kept_states([rng]):
        rng.random() / 0
    assert rng.random() == expected


def test_a_generator_without_a_state_is_left_alone() -> None:
    assert random_generators([Holder(random.SystemRandom())]) == []
