"""Random numbers that are a pure function of (seed, worker, job), at the price of a cached list look-up."""

from __future__ import annotations

import operator
from array import array
from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from lightning_async.simulation.worker_times import Duration

Draw: TypeAlias = Callable[[np.random.Generator, int, int], npt.NDArray[np.float64]]
"""(generator, worker, size) -> `size` draws made one after the other, so that fewer draws are a prefix of more."""

JOBS_PER_BLOCK = 64
# Every worker of a large cluster has a first job, few have a hundredth: the first span is short to save memory.
FIRST_SPAN = 8

# Highest word of the Philox counter: no other use of the seed can meet these streams.
_DOMAIN = int.from_bytes(b"duration", "big")


def philox(seed: int, stream: int, domain: int) -> np.random.Philox:
    """Philox 4x64 (Salmon et al. 2011) with key (seed, stream) and counter (0, 0, 0, domain).

    Args:
        seed: seed of the run, 0 to 2**64 - 1.
        stream: which of the independent streams of the seed: a worker, a round.
        domain: what the numbers are for.

    Raises:
        TypeError: if the seed is not an integer.
        ValueError: if it is out of range.
    """
    if not 0 <= operator.index(seed) < 2**64:
        raise ValueError(f"seed must be an integer from 0 to 2**64 - 1, got {seed}")
    key = np.array([seed, stream], dtype=np.uint64)
    return np.random.Philox(key=key, counter=np.array([0, 0, 0, domain], dtype=np.uint64))


def block_sampler(num_workers: int, seed: int, draw: Draw, layer: int = 0) -> Duration:
    """A sampler whose value for (worker, job) is `draw` under a generator at (seed, worker, block of the job).

    Each worker holds one block, so that memory does not grow with the number of jobs; a job outside it moves the block,
    which costs some microseconds for 64 jobs.

    Args:
        num_workers: number of workers.
        seed: seed of the run, 0 to 2**64 - 1.
        draw: makes the values of a block.
        layer: separates draws that are combined within one model.

    Raises:
        ValueError: if the seed is out of range.
    """
    bits = philox(seed, 0, _DOMAIN)
    generator = np.random.Generator(bits)
    # Moving one generator is some ten times cheaper than making one for each block.
    state = bits.state
    key, counter = state["state"]["key"], state["state"]["counter"]
    first = [0] * num_workers
    spans = [array("d")] * num_workers

    def refill(worker: int, job: int) -> array[float]:
        if job < 0:
            raise ValueError(f"job numbers start at 0, got {job}")
        block = job // JOBS_PER_BLOCK
        key[1], counter[1], counter[2] = worker, block, layer
        bits.state = state
        span = array("d", draw(generator, worker, FIRST_SPAN if job < FIRST_SPAN else JOBS_PER_BLOCK).tobytes())
        first[worker] = block * JOBS_PER_BLOCK
        spans[worker] = span
        return span

    def value(worker: int, job: int, start: float = 0.0) -> float:
        span = spans[worker]
        offset = job - first[worker]
        if not 0 <= offset < len(span):
            span = refill(worker, job)
            offset = job - first[worker]
        return span[offset]

    return value
