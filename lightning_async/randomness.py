"""Seeds derived from a run's seed, one per use, independent of the order of use."""

from __future__ import annotations

import struct
from hashlib import blake2b


def derived_seed(seed: int, purpose: str, *indices: int) -> int:
    """A 63-bit seed for one purpose of a run.

    Args:
        seed: the run's seed.
        purpose: a word that separates uses of the same indices.
        *indices: what is seeded: an epoch, a position, a (worker, job number).
    """
    message = struct.pack(f"<q{len(indices)}q", _signed(seed), *indices)
    digest = blake2b(message, digest_size=8, person=purpose.encode()[:16]).digest()
    return int.from_bytes(digest, "little") >> 1


def job_seed(seed: int, worker: int, number: int) -> int:
    """Seed of the randomness (dropout, for example) inside one job.

    Args:
        seed: the run's seed.
        worker: the worker that computes the job.
        number: the job's number at that worker.

    Returns:
        An integer in [0, 2^63).
    """
    return derived_seed(seed, "job", worker, number)


def _signed(seed: int) -> int:
    return (seed + 2**63) % 2**64 - 2**63
