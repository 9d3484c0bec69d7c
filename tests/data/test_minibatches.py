import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, Dataset, default_collate, get_worker_info

from lightning_async.data.minibatches import NOTHING, MiniBatches, Request, minibatch_loader


class Noisy(Dataset[Any]):
    """Every sample is augmented with numbers from the three libraries."""

    def __init__(self, size: int = 24) -> None:
        self.size = size
        self.mark = 0

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, index: int) -> Any:
        noise = torch.rand(()).item(), np.random.randn(), random.random()
        return torch.tensor([index, *noise], dtype=torch.float64)


class NoisyInBulk(Noisy):
    def __getitems__(self, indices: list[int]) -> Any:
        return [torch.tensor([index, np.random.rand()]) for index in indices]


def noisy_collate(samples: list[Any]) -> Any:
    return default_collate(samples), torch.randperm(len(samples)), np.random.permutation(3).tolist()


def requests() -> Iterator[Request]:
    for start in (0, 8, 4, 0):
        yield Request((start,), list(range(start, start + 4)))
    yield NOTHING
    yield Request((99,), [23, 1])


def read(loader: DataLoader[Any]) -> list[Any]:
    return list(minibatch_loader(loader, requests, seed=0))


def equal(one: Any, other: Any) -> bool:
    if isinstance(one, torch.Tensor):
        return torch.equal(one, other)
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(equal, one, other))
    return bool(one == other)


@pytest.mark.parametrize("dataset", [Noisy(), NoisyInBulk()], ids=["one by one", "in bulk"])
@pytest.mark.parametrize("collate", [None, noisy_collate])
@pytest.mark.parametrize("persistent", [False, True])
def test_loading_processes_do_not_change_what_is_loaded(dataset: Any, collate: Any, persistent: bool) -> None:
    alone = read(DataLoader(dataset, batch_size=4, collate_fn=collate))
    helped = read(DataLoader(dataset, batch_size=4, collate_fn=collate, num_workers=2, persistent_workers=persistent))
    assert equal(alone, helped)
    assert equal(alone[0], alone[3])  # same request, same mini-batch
    assert not equal(alone[0], alone[1])
    assert alone[4] is None


def test_a_request_selects_its_samples() -> None:
    batch = MiniBatches(Noisy(), default_collate, batched=True, seed=0)[Request((0,), [5, 2])]
    assert batch[:, 0].tolist() == [5, 2]


def test_without_batching_a_request_selects_one_sample() -> None:
    loader = minibatch_loader(
        DataLoader(Noisy(), batch_size=None), lambda: iter([Request((0,), 7), Request((0,), 3)]), seed=0
    )
    assert [sample[0].item() for sample in loader] == [7, 3]


def test_bulk_loading_of_a_dataset_is_used() -> None:
    assert read(DataLoader(NoisyInBulk(), batch_size=4))[0].shape == (4, 2)


@pytest.mark.parametrize("num_workers", [0, 2])
def test_loading_leaves_global_random_states_alone(num_workers: int) -> None:
    torch.manual_seed(0), np.random.seed(0), random.seed(0)
    expected = [torch.rand(()).item(), np.random.randn(), np.random.randn(), random.random()]
    torch.manual_seed(0), np.random.seed(0), random.seed(0)
    drawn = [torch.rand(()).item(), np.random.randn()]
    loader = minibatch_loader(DataLoader(Noisy(), batch_size=4, num_workers=num_workers), requests, seed=0)
    for _ in range(2):
        list(loader)
    drawn += [np.random.randn(), random.random()]
    assert drawn == expected
    torch.manual_seed(0)
    torch.rand(())
    after_one = torch.rand(()).item()
    torch.manual_seed(0)
    torch.rand(())
    list(loader)
    assert torch.rand(()).item() == after_one


class Marked(Noisy):
    def __getitem__(self, index: int) -> Any:
        info = get_worker_info()
        return self.mark, info is not None and info.dataset is self


def mark(process: int) -> None:
    info = get_worker_info()
    assert info is not None
    info.dataset.mark = 10 + process  # type: ignore[attr-defined]


def test_worker_init_fn_finds_the_users_dataset() -> None:
    loader = DataLoader(Marked(), batch_size=2, num_workers=2, worker_init_fn=mark, collate_fn=list)
    batches = [batch for batch in read(loader) if batch is not None]
    assert {process for batch in batches for process, _ in batch} == {10, 11}
    assert all(is_own for batch in batches for _, is_own in batch)


def test_settings_of_the_processes_are_kept() -> None:
    loader = DataLoader(
        Noisy(), num_workers=2, timeout=7, prefetch_factor=3, persistent_workers=True, multiprocessing_context="spawn"
    )
    made = minibatch_loader(loader, requests, seed=0)
    assert (made.num_workers, made.timeout, made.prefetch_factor, made.persistent_workers) == (2, 7, 3, True)
    assert made.multiprocessing_context is loader.multiprocessing_context


def test_an_error_in_the_dataset_reaches_the_caller() -> None:
    class Broken(Noisy):
        def __getitem__(self, index: int) -> Any:
            raise LookupError(f"sample {index} is gone")

    with pytest.raises(LookupError, match="sample 0 is gone"):
        read(DataLoader(Broken(), batch_size=4))


class _Noise(Dataset[Any]):
    """Draws its samples."""

    def __init__(self, deterministic: bool | None) -> None:
        if deterministic is not None:
            self.deterministic = deterministic

    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.rand(3)


@pytest.mark.parametrize("deterministic", [None, False])
def test_a_dataset_that_promises_nothing_is_seeded(deterministic: bool | None) -> None:
    data = MiniBatches(_Noise(deterministic), default_collate, batched=True, seed=0)
    assert torch.equal(data[Request((5,), [0, 1])], data[Request((5,), [0, 1])])


def test_a_dataset_that_promises_to_draw_nothing_is_not_seeded() -> None:
    data = MiniBatches(_Noise(True), default_collate, batched=True, seed=0)
    assert not torch.equal(data[Request((5,), [0, 1])], data[Request((5,), [0, 1])])
