"""Seeds: a pure function of what is seeded, different for different uses, the same in every process."""

import numpy as np
import pytest
import torch

from lightning_async import job_seed
from lightning_async.randomness import JobRandomness, derived_seed
from lightning_async.simulation import Job


def test_job_seeds_are_63_bits_and_all_different() -> None:
    seeds = {job_seed(seed, worker, number) for seed in range(10) for worker in range(30) for number in range(30)}
    assert len(seeds) == 10 * 30 * 30
    assert all(0 <= seed < 2**63 for seed in seeds)


def test_every_bit_of_a_seed_is_a_coin() -> None:
    seeds = np.array([job_seed(0, worker, number) for worker in range(100) for number in range(100)])
    ones = [(seeds >> bit & 1).mean() for bit in range(63)]
    assert max(abs(share - 0.5) for share in ones) < 4.5 * 0.5 / 100  # standard errors; 63 of them are looked at


def test_a_seed_is_the_same_in_every_process_and_release() -> None:
    assert job_seed(1, 2, 3) == derived_seed(1, "job", 2, 3) == 2_716_393_008_090_168_431


def test_uses_with_equal_numbers_have_different_seeds() -> None:
    assert len({derived_seed(1, "order", 2, 3), derived_seed(1, "load", 2, 3), derived_seed(1, "order", 2)}) == 3


@pytest.mark.parametrize("seed", [-1, 2**63 - 1, 2**63, 2**64 - 1])
def test_every_seed_of_64_bits_can_be_used(seed: int) -> None:
    assert job_seed(seed, 0, 0) != job_seed(seed - 1, 0, 0)


def test_a_seed_may_come_from_numpy() -> None:
    assert job_seed(np.int64(5), np.int64(1), 2) == job_seed(5, 1, 2)


def test_a_purpose_that_would_be_cut_is_refused() -> None:
    with pytest.raises(ValueError, match="at most 16 bytes"):
        derived_seed(0, "a purpose of more than sixteen letters", 0)


@pytest.mark.parametrize("seed", [0, 7, 2**63])
def test_a_job_runs_under_its_seed_and_leaves_no_trace(seed: int) -> None:
    randomness = JobRandomness(seed, torch.device("cpu"))
    with torch.random.fork_rng():
        torch.manual_seed(1)
        before = torch.get_rng_state()
        for worker, number in [(0, 0), (3, 11), (3, 12), (0, 0)]:
            job = Job(worker, 0, number)
            assert randomness.run(job, torch.initial_seed) == job_seed(seed, worker, number)
            randomness.run(job, lambda: torch.rand(()))
            assert torch.equal(torch.get_rng_state(), before)
