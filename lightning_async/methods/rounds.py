"""The rounds of replica methods in logical time: local steps, message, merge. No tensors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from lightning_async.simulation import Duration, Job, NoArrivalError, SimulatedCluster, Step

MOST_STEPS = 1_000_000
"""Local steps that a worker may make in one phase: far beyond what is sensible, and a plan of it fits in memory."""

_TOLERANCE = 1 + 1e-9  # a sum of durations that should fill a phase exactly may exceed it by rounding


class Round(NamedTuple):
    """One round: everybody computes, then a message travels, with or without further local steps, then the merge.

    Attributes:
        index: number of rounds before this one.
        start: when all workers begin, t0, in logical time.
        snapshot: when the values that are exchanged are read, t1.
        end: when the message has arrived and replicas are merged, t2.
        before: local steps of each worker until the snapshot, N_i >= 1.
        during: local steps of each worker while the message travels, Q_i.
        computing: time that each worker spends in local steps.
        hidden: the part of it that lies between snapshot and merge: communication time that costs the worker nothing.
        coordinates: how many coordinates are exchanged, K; None if the size of the model is not known.
        num_bytes: what each worker sends, in bytes; None if the size of the model is not known.
        steps: the local steps in order of time. The merge belongs to the last one, whose time is `end`.
    """

    index: int  # type: ignore[assignment]  # tuple.index, which nobody needs here
    start: float
    snapshot: float
    end: float
    before: tuple[int, ...]
    during: tuple[int, ...]
    computing: tuple[float, ...]
    hidden: tuple[float, ...]
    coordinates: int | None
    num_bytes: float | None
    steps: tuple[Step, ...]

    @property
    def communication(self) -> float:
        """How long the message travels, in logical time."""
        return self.end - self.snapshot

    @property
    def idle(self) -> tuple[float, ...]:
        """Time that each worker spends waiting, in logical time."""
        length = self.end - self.start
        return tuple(max(0.0, length - computing) for computing in self.computing)


class RoundClock:
    """Makes one round after the other from worker times.

    All workers start together at t0. Worker i makes the steps that end by t0 + window, at least one; at
    t1 = t0 + max(window, longest first step) the exchanged values are read and all start afresh; with overlap, worker i
    makes the steps that end by t2 = t1 + communication. A step that would end after its phase is not started, and its
    number is not used up. Sums of durations are compared with a relative tolerance of 1e-9.

    Args:
        cluster: the workers.
        window: logical time for local steps before the message.
    """

    def __init__(self, cluster: SimulatedCluster, window: float) -> None:
        self._cluster = cluster
        self._duration: Duration = cluster.times.sampler(cluster.seed)
        self._window = window
        self._workers = cluster.workers
        self._numbers = [0] * cluster.num_workers
        self._index = 0
        self._now = 0.0
        self._first_step = 0

    def snapshot(self) -> float:
        """When the values of the coming round are read, t1.

        Raises:
            NoArrivalError: if a worker never finishes its first step.
        """
        now = self._now
        first = [self._duration(worker, self._numbers[worker], now) for worker in self._workers]
        slowest = max(first)
        if slowest == math.inf:
            raise NoArrivalError(
                f"worker {first.index(slowest)} never finishes the local step that it begins at logical time {now}, "
                f"but a round waits for one step of every worker: with {self._cluster.times!r}, use a server method"
            )
        return now + max(self._window, slowest)

    def next_round(
        self, communication: float, overlap: bool, coordinates: int | None, num_bytes: float | None
    ) -> Round:
        """The coming round.

        Args:
            communication: how long its message travels, in logical time.
            overlap: whether workers go on while it travels.
            coordinates: number of coordinates exchanged.
            num_bytes: bytes that each worker sends.

        Raises:
            NoArrivalError: if a worker never finishes its first step.
            ValueError: if there would be a senseless number of local steps.
        """
        start, snapshot = self._now, self.snapshot()
        end = snapshot + communication
        travelling = communication if overlap else 0.0
        sharded, index = self._cluster.sharded, self._index
        before, during, computing, hidden = [], [], [], []
        made: list[tuple[bool, float, int, int]] = []  # (overlapping, end, worker, number), in order of time
        for worker in self._workers:
            first = self._numbers[worker]
            ends = self._ends(worker, first, start, self._window, at_least=1)
            later = self._ends(worker, first + len(ends), snapshot, travelling, at_least=0)
            self._numbers[worker] = first + len(ends) + len(later)
            before.append(len(ends))
            during.append(len(later))
            hidden.append(later[-1] if later else 0.0)
            computing.append(ends[-1] + hidden[-1])
            made.extend((False, min(start + e, snapshot), worker, first + i) for i, e in enumerate(ends))
            made.extend((True, min(snapshot + e, end), worker, first + len(ends) + i) for i, e in enumerate(later))
        made.sort()
        made[-1] = (made[-1][0], end, *made[-1][2:])
        steps = tuple(
            Step(self._first_step + i, time, (Job(worker, index, number, worker if sharded else None),))
            for i, (_, time, worker, number) in enumerate(made)
        )
        self._index, self._now, self._first_step = index + 1, end, self._first_step + len(steps)
        return Round(
            index,
            start,
            snapshot,
            end,
            tuple(before),
            tuple(during),
            tuple(computing),
            tuple(hidden),
            coordinates,
            num_bytes,
            steps,
        )

    def _ends(self, worker: int, number: int, start: float, length: float, at_least: int) -> Sequence[float]:
        """When the steps of one phase end, counted from its start."""
        duration, limit = self._duration, length * _TOLERANCE
        ends: list[float] = []
        elapsed = 0.0
        while True:
            step = duration(worker, number + len(ends), start + elapsed)
            if not step > 0.0:
                raise ValueError(
                    f"{self._cluster.times!r} gives job {number + len(ends)} of worker {worker} the duration {step}; "
                    f"local steps must take time, or a round would have no end of them"
                )
            elapsed += step
            if len(ends) > MOST_STEPS:
                raise ValueError(
                    f"worker {worker} would make more than {MOST_STEPS} local steps in {length:g} of logical time, in "
                    f"round {self._index}: shorten compute_window, give the link less latency or more bandwidth, or "
                    f"use overlap=False"
                )
            if elapsed > limit and len(ends) >= at_least:
                return ends
            ends.append(elapsed)
