"""Seeds derived from a run's seed, one per use, independent of the order of use."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable
from hashlib import blake2b
from typing import Any, TypeVar

import numpy as np
import torch

from lightning_async.simulation import Job

_Result = TypeVar("_Result")
_JOB = "job"
_PAIR = struct.Struct("<2q")


def derived_seed(seed: int, purpose: str, *indices: int) -> int:
    """A 63-bit seed for one purpose of a run.

    Args:
        seed: the run's seed.
        purpose: a word that separates uses of the same indices.
        *indices: what is seeded: an epoch, a position, a (worker, job number).

    Raises:
        ValueError: if `purpose` is longer than 16 bytes: two purposes with a common beginning would be one.
    """
    return _completed(_beginning(seed, purpose), struct.pack(f"<{len(indices)}q", *indices))


def _beginning(seed: int, purpose: str) -> blake2b:
    """What all seeds of one purpose of a run have in common."""
    person = purpose.encode()
    if len(person) > blake2b.PERSON_SIZE:
        raise ValueError(f"purpose must have at most {blake2b.PERSON_SIZE} bytes, got {purpose!r}")
    return blake2b(struct.pack("<q", _signed(seed)), digest_size=8, person=person)


def _completed(beginning: blake2b, indices: bytes) -> int:
    """The seed of which seed and purpose have been hashed already, and the indices not yet."""
    beginning.update(indices)
    return int.from_bytes(beginning.digest(), "little") >> 1


def job_seed(seed: int, worker: int, number: int) -> int:
    """Seed of the randomness (dropout, for example) inside one job.

    Args:
        seed: the run's seed.
        worker: the worker that computes the job.
        number: the job's number at that worker.

    Returns:
        An integer in [0, 2^63).
    """
    return derived_seed(seed, _JOB, worker, number)


class JobRandomness:
    """Torch's randomness inside jobs, each of which has a seed of its own, and the global states around them.

    Between jobs anybody may draw: hooks of a module, callbacks. These draws are a stream that goes on from job to job,
    and with a run that is resumed (`state_dict`).

    Args:
        seed: the run's seed.
        device: where jobs are computed; they may draw on the CPU too.
    """

    def __init__(self, seed: int, device: torch.device) -> None:
        # Seeds as of `job_seed`. Hashing their beginning for each job took longer than the rest of `run`.
        self._seeds = _beginning(seed, _JOB)
        self._generators = [torch.default_generator]
        if device.type == "cuda":
            torch.cuda.init()  # type: ignore[no-untyped-call]
            self._generators.append(torch.cuda.default_generators[device.index or 0])
        elif device.type == "mps":
            self._generators.append(torch.mps._get_default_mps_generator())

    def run(self, job: Job, compute: Callable[[], _Result]) -> _Result:
        """Call `compute` under the seed of a job; the surrounding random states are put back afterwards."""
        seed = _completed(self._seeds.copy(), _PAIR.pack(job.worker, job.number))
        states = []
        for generator in self._generators:
            states.append(generator.get_state())
            generator.manual_seed(seed)
        try:
            return compute()
        finally:
            for generator, state in zip(self._generators, states):  # noqa: B905  around every gradient
                generator.set_state(state)

    def state_dict(self) -> dict[str, Any]:
        """Global states of torch, numpy and `random`, in tensors and built-in types."""
        version, numbers, gauss = random.getstate()
        legacy: Any = np.random.get_state(legacy=False)
        return {
            "torch": [generator.get_state() for generator in self._generators],
            "python": [version, list(numbers), gauss],
            "numpy": _without_arrays(legacy),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Set the global states; those of devices that are not here are left out."""
        for generator, tensor in zip(self._generators, state["torch"], strict=False):
            generator.set_state(tensor.cpu())
        version, numbers, gauss = state["python"]
        random.setstate((version, tuple(numbers), gauss))
        if state["numpy"]["bit_generator"] == np.random.get_state(legacy=False)["bit_generator"]:
            np.random.set_state(state["numpy"])


def _without_arrays(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_arrays(item) for key, item in value.items()}
    return value.tolist() if isinstance(value, np.ndarray) else value


def _signed(seed: int) -> int:
    return (int(seed) + 2**63) % 2**64 - 2**63
