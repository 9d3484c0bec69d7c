import contextlib
import random
from collections.abc import Callable

import numpy as np
import pytest
import torch

from lightning_async.data.seeding import own_generators, reseed, seeded


def torch_numbers() -> list[float]:
    # Three normals: numpy and `random` make them in pairs, and keep the second for the next call.
    return [*torch.rand(2).tolist(), *torch.randn(3).tolist()]


def numpy_numbers() -> list[float]:
    return [*np.random.rand(2), *(np.random.randn() for _ in range(3)), *np.random.permutation(5)]


def python_numbers() -> list[float]:
    return [random.random(), *(random.gauss(0.0, 1.0) for _ in range(3)), random.randrange(100)]


SOURCES = pytest.mark.parametrize("draw", [torch_numbers, numpy_numbers, python_numbers])


@SOURCES
@pytest.mark.parametrize("seed", [0, 1, 2**31, 2**63 - 1])
def test_same_seed_gives_the_same_numbers_whatever_was_drawn_before(draw: Callable[[], list[float]], seed: int) -> None:
    with seeded(seed):
        first = draw()
    draw()
    with seeded(seed):
        again = draw()
    assert first == again


@SOURCES
def test_other_seeds_give_other_numbers(draw: Callable[[], list[float]]) -> None:
    drawn = []
    for seed in (0, 1, 1 << 31, (1 << 62) + 5):
        with seeded(seed):
            drawn.append(tuple(draw()))
    assert len(set(drawn)) == len(drawn)


@pytest.mark.parametrize("draw", [numpy_numbers, python_numbers])  # torch looks at 32 bits only
def test_both_halves_of_a_seed_matter(draw: Callable[[], list[float]]) -> None:
    drawn = []
    for seed in (1, (1 << 32) + 1, (1 << 62) + 1):
        with seeded(seed):
            drawn.append(tuple(draw()))
    assert len(set(drawn)) == len(drawn)


def seed_all() -> None:
    torch.manual_seed(0)
    np.random.seed(0)
    random.seed(0)


@SOURCES
def test_the_surrounding_sequence_goes_on_as_if_nothing_had_happened(draw: Callable[[], list[float]]) -> None:
    seed_all()
    expected = draw() + draw()
    seed_all()
    first = draw()  # leaves the second normal number of a pair behind
    with seeded(5):
        draw()
    assert first + draw() == expected


@SOURCES
def test_an_exception_inside_leaves_the_surroundings_as_they_were(draw: Callable[[], list[float]]) -> None:
    seed_all()
    expected = draw() + draw()
    seed_all()
    first = draw()
    with contextlib.suppress(KeyError), seeded(5):
        draw()
        raise KeyError
    assert first + draw() == expected


@SOURCES
@pytest.mark.parametrize("depth", [2, 3, 4])
def test_blocks_can_be_nested(draw: Callable[[], list[float]], depth: int) -> None:
    def alone(seed: int) -> list[float]:
        with seeded(seed):
            return draw() + draw()

    def nested(seed: int) -> list[float]:
        with seeded(seed):
            first = draw()
            if seed + 1 < depth:
                assert nested(seed + 1) == alone(seed + 1)
            return first + draw()

    assert nested(0) == alone(0)


def test_seeding_inside_does_not_reach_the_surroundings() -> None:
    seed_all()
    expected = torch_numbers() + numpy_numbers() + python_numbers()
    seed_all()
    with seeded(5):
        torch.manual_seed(9)
        np.random.seed(9)
        random.seed(9)
        np.random.set_state(np.random.get_state())
        np.random.randn()
    assert torch_numbers() + numpy_numbers() + python_numbers() == expected


def test_a_foreign_bit_generator_of_numpy_is_put_back() -> None:
    original = np.random.get_bit_generator()
    foreign = np.random.PCG64(3)
    try:
        np.random.set_bit_generator(foreign)
        with seeded(5):
            inside = np.random.rand()
        assert np.random.get_bit_generator() is foreign
    finally:
        np.random.set_bit_generator(original)
    with seeded(5):
        assert np.random.rand() == inside


class Holder:
    def __init__(self) -> None:
        self.torch = torch.Generator()
        self.numpy = np.random.default_rng()
        self.philox = np.random.Generator(np.random.Philox())
        self.legacy = np.random.RandomState()
        self.python = random.Random()
        self.other = "no generator"

    def draw(self) -> list[float]:
        numbers = [
            torch.rand((), generator=self.torch).item(),
            self.numpy.random(),
            self.philox.random(),
            self.legacy.rand(),
        ]
        return [*numbers, self.python.random()]


def test_own_generators_of_every_library_are_found_and_seeded() -> None:
    one, other = Holder(), Holder()
    assert len(own_generators(one)) == 5
    reseed(own_generators(one), 7)
    reseed(own_generators(other), 7)
    first = one.draw()
    assert first == other.draw()
    reseed(own_generators(one), 8)
    assert not set(first) & set(one.draw())


def test_objects_without_attributes_own_no_generator() -> None:
    assert own_generators(range(3)) == own_generators(None) == []
