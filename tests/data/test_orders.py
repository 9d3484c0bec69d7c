import random
from collections.abc import Iterator
from itertools import chain, islice
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils.data import BatchSampler, RandomSampler, SequentialSampler, WeightedRandomSampler

from lightning_async.data.orders import Order, Position, SamplerOrder, ShardOrder

N = 700  # more mini-batches than are read in one go, whatever the batch size below


class LazyNumpySampler:
    """Draws from numpy's global generator at every next."""

    def __iter__(self) -> Iterator[int]:
        for _ in range(N):
            yield int(np.random.randint(N))

    def __len__(self) -> int:
        return N


class LazyGaussSampler:
    """Draws normals one by one from all three libraries: each keeps, or may keep, the second of a pair."""

    def __iter__(self) -> Iterator[int]:
        for _ in range(N):
            yield int(1e6 * (np.random.randn() + random.gauss(0.0, 1.0) + torch.randn(()).item()))


class OwnNumpyGenerator:
    """Owns a generator that goes on from pass to pass."""

    def __init__(self) -> None:
        self.rng = np.random.default_rng(3)

    def __iter__(self) -> Iterator[int]:
        for _ in range(N):
            yield int(self.rng.integers(N))


class EpochSampler:
    """Shuffles by its epoch, as samplers of distributed training do."""

    def __init__(self) -> None:
        self.epoch = 0

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __iter__(self) -> Iterator[int]:
        return iter(np.random.default_rng(self.epoch).permutation(N).tolist())


class Infinite:
    def __iter__(self) -> Iterator[int]:
        while True:
            yield int(torch.randint(N, ()))


def own_torch_generator() -> RandomSampler:
    return RandomSampler(range(N), generator=torch.Generator().manual_seed(3))


SAMPLERS = {
    "random": lambda: RandomSampler(range(N)),
    "sequential": lambda: SequentialSampler(range(N)),
    "weighted": lambda: WeightedRandomSampler([1.0] * N, N),
    "with replacement": lambda: RandomSampler(range(N), replacement=True, num_samples=N),
    "own torch generator": own_torch_generator,
    "with replacement, own torch generator": lambda: RandomSampler(
        range(N), replacement=True, num_samples=N, generator=torch.Generator().manual_seed(3)
    ),
    "batches": lambda: BatchSampler(RandomSampler(range(N)), 3, drop_last=True),
    "batches, own torch generator": lambda: BatchSampler(own_torch_generator(), 3, drop_last=False),
    "batches, epoch": lambda: BatchSampler(EpochSampler(), 3, drop_last=False),
    "epoch": EpochSampler,
    "lazy numpy": LazyNumpySampler,
    "lazy normals": LazyGaussSampler,
    "own numpy generator": OwnNumpyGenerator,
    "infinite": Infinite,
}
EVERY_SAMPLER = pytest.mark.parametrize("name", SAMPLERS)


def read(order: Order, position: Position, count: int) -> list[Any]:
    return list(islice(order.read_from(position), count))


@EVERY_SAMPLER
@pytest.mark.parametrize("start", [0, 1, 63, 64, 200, 233, 699, 1000])
def test_reading_from_a_position_continues_the_uninterrupted_stream(name: str, start: int) -> None:
    whole = read(SamplerOrder(SAMPLERS[name](), seed=1), Position(), start + 300)
    position = whole[start][0]
    torch.rand(3), np.random.randn(), random.random()  # what happens elsewhere makes no difference
    assert read(SamplerOrder(SAMPLERS[name](), seed=1), position, 300) == whole[start:]


@EVERY_SAMPLER
def test_a_sampler_that_has_been_used_gives_the_same_order(name: str) -> None:
    sampler = SAMPLERS[name]()
    first = read(SamplerOrder(sampler, seed=1), Position(), 900)
    assert read(SamplerOrder(sampler, seed=1), Position(), 900) == first


@EVERY_SAMPLER
def test_global_random_states_are_untouched(name: str) -> None:
    torch.manual_seed(0), np.random.seed(0), random.seed(0)
    np.random.randn(), random.gauss(0.0, 1.0)
    torch_state, numpy_state, python_state = torch.get_rng_state(), np.random.get_state(), random.getstate()
    read(SamplerOrder(SAMPLERS[name](), seed=1), Position(), 900)
    assert torch.equal(torch.get_rng_state(), torch_state)
    assert random.getstate() == python_state
    assert np.array_equal(np.random.get_state()[1], numpy_state[1])
    assert np.random.get_state()[2:] == numpy_state[2:]


@pytest.mark.parametrize("name", [name for name in SAMPLERS if name not in ("sequential", "epoch", "batches, epoch")])
def test_order_depends_on_the_seed(name: str) -> None:
    one, other = (read(SamplerOrder(SAMPLERS[name](), seed), Position(), 100) for seed in (1, 2))
    assert [position for position, _ in one] == [position for position, _ in other]
    assert [indices for _, indices in one] != [indices for _, indices in other]


@pytest.mark.parametrize("name", [name for name in SAMPLERS if name not in ("sequential", "infinite")])
def test_every_epoch_has_an_order_of_its_own(name: str) -> None:
    order = SamplerOrder(SAMPLERS[name](), seed=1)
    epochs = [list(order.epoch(epoch)) for epoch in range(3)]
    assert epochs[0] != epochs[1] != epochs[2] != epochs[0]


@pytest.mark.parametrize("name", ["random", "own torch generator", "epoch"])
def test_an_epoch_is_a_permutation(name: str) -> None:
    order = SamplerOrder(SAMPLERS[name](), seed=1)
    for epoch in range(2):
        assert sorted(order.epoch(epoch)) == list(range(N))


def test_limit_cuts_every_pass() -> None:
    whole, cut = (SamplerOrder(SAMPLERS["random"](), 1, limit) for limit in (None, 100))
    for epoch in range(2):
        assert list(cut.epoch(epoch)) == list(whole.epoch(epoch))[:100]
    assert [position for position, _ in read(cut, Position(0, 98), 4)] == [(0, 98), (0, 99), (1, 0), (1, 1)]


class Counting:
    def __init__(self) -> None:
        self.asked = 0

    def __iter__(self) -> Iterator[int]:
        for index in range(10**9):
            self.asked += 1
            yield index


def test_a_sampler_is_not_read_further_than_a_chunk_ahead() -> None:
    sampler = Counting()
    read(SamplerOrder(sampler, seed=0), Position(), 10)
    assert sampler.asked <= 64


def test_an_empty_sampler_is_an_error_and_not_an_endless_loop() -> None:
    with pytest.raises(RuntimeError, match="no mini-batch in epoch 0"):
        next(SamplerOrder([], seed=0).read_from(Position()))


def shard_order(size: int, batch_size: int, **kwargs: Any) -> ShardOrder:
    arguments = {"shuffle": True, "drop_last": False, "seed": 1, "worker": 0, **kwargs}
    return ShardOrder(np.arange(size) * 10, batch_size, **arguments)


sizes = {"size": st.integers(1, 40), "batch_size": st.integers(1, 50), "shuffle": st.booleans()}


@settings(max_examples=60)
@given(**sizes, epoch=st.integers(0, 3))
def test_a_pass_over_a_shard_holds_every_sample_once(size: int, batch_size: int, shuffle: bool, epoch: int) -> None:
    batches = list(shard_order(size, batch_size, shuffle=shuffle).epoch(epoch))
    assert sorted(chain.from_iterable(batches)) == [10 * index for index in range(size)]
    assert all(len(batch) == batch_size for batch in batches[:-1])


@settings(max_examples=60)
@given(**sizes)
def test_drop_last_drops_an_incomplete_mini_batch_but_never_the_only_one(
    size: int, batch_size: int, shuffle: bool
) -> None:
    batches = list(shard_order(size, batch_size, shuffle=shuffle, drop_last=True).epoch(0))
    assert len(batches) == max(1, size // batch_size)
    assert {len(batch) for batch in batches} == {min(size, batch_size)}


@settings(max_examples=30)
@given(**sizes, start=st.integers(0, 60))
def test_reading_a_shard_from_a_position_continues_the_stream(
    size: int, batch_size: int, shuffle: bool, start: int
) -> None:
    whole = read(shard_order(size, batch_size, shuffle=shuffle), Position(), start + 20)
    assert read(shard_order(size, batch_size, shuffle=shuffle), whole[start][0], 20) == whole[start:]


def test_shards_shuffle_independently_of_each_other_and_anew_in_every_epoch() -> None:
    orders = [
        list(chain.from_iterable(shard_order(40, 4, worker=worker).epoch(epoch)))
        for worker in range(3)
        for epoch in range(3)
    ]
    assert len({tuple(order) for order in orders}) == len(orders)


def test_without_shuffling_a_shard_is_read_in_order() -> None:
    assert list(shard_order(5, 2, shuffle=False).epoch(3)) == [[0, 10], [20, 30], [40]]


def test_limit_cuts_every_pass_over_a_shard() -> None:
    for epoch in range(2):
        assert list(shard_order(40, 4, limit=3).epoch(epoch)) == list(shard_order(40, 4).epoch(epoch))[:3]
