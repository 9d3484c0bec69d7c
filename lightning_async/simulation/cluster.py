"""The primitives a schedule is written with, and the event queue that runs them in logical time."""

from __future__ import annotations

import math
from array import array
from collections import deque
from collections.abc import Sequence
from heapq import heapify, heappop, heappush, heapreplace
from typing import Protocol

from typing_extensions import Self

from lightning_async.simulation.links import Link
from lightning_async.simulation.records import Arrival, Job
from lightning_async.simulation.worker_times import WorkerTimes

_new_tuple = tuple.__new__  # skips the generated __new__ of a NamedTuple, which costs more than the tuple itself
_COMPACT_ABOVE = 64


class NoArrivalError(RuntimeError):
    """The schedule waits for an arrival, and no job that is out will ever finish."""


class Cluster(Protocol):
    """What a method may use of the machines that compute gradients, simulated or real."""

    @property
    def seed(self) -> int:
        """Seed of everything random in the schedule: worker times, uniform dispatch, masks."""

    @property
    def now(self) -> float:
        """Logical time of the last arrival; 0 at the start."""

    @property
    def workers(self) -> Sequence[int]:
        """Indices of the workers."""

    def start(self, message_bytes: float = 0.0) -> Self:
        """A run of this cluster from time 0, independent of every other run."""

    def dispatch(self, worker: int, version: int) -> Job:
        """Give `worker` a job at iterate `version`; a busy worker takes it when it has finished what it has."""

    def dispatch_all(self, version: int) -> None:
        """Give every worker a job at iterate `version`."""

    def cancel(self, worker: int) -> Job | None:
        """Stop the job that `worker` is computing and return it; None if the worker is idle."""

    def cancel_all(self) -> list[Job]:
        """Stop every job that is being computed or waits, and return them."""

    def next_arrival(self) -> Arrival:
        """Wait for the next job to finish."""


class SimulatedCluster:
    """n workers of given speeds on a simulated clock.

    The state is a heap of arrivals, so that an event costs O(log n); nothing is computed. Time is logical: the unit is
    that of `times`. Simultaneous arrivals come in the order of their worker index.

    Args:
        times: how long each worker computes one job.
        link: how long a message between server and worker takes. A job costs download + compute + upload; by default
            messages are free.
        seed: seed of the worker times and of everything else random in a schedule. Two methods with the same seed see
            the same time for the same (worker, job number).

    Raises:
        TypeError: if `times` is not a `WorkerTimes`, `link` not a `Link` or `seed` not an integer.

    Example:
        >>> from lightning_async.simulation import FixedTimes, SimulatedCluster
        >>> cluster = SimulatedCluster(FixedTimes([1.0, 2.5]))
        >>> cluster.dispatch_all(version=0)
        >>> arrival = cluster.next_arrival()
        >>> arrival.time, arrival.worker, arrival.version
        (1.0, 0, 0)
        >>> cluster.dispatch(arrival.worker, version=1)
        Job(worker=0, version=1, number=1, shard=None)
    """

    def __init__(self, times: WorkerTimes, link: Link | None = None, seed: int = 0) -> None:
        if not isinstance(times, WorkerTimes):
            raise TypeError(
                f"times must be a WorkerTimes such as FixedTimes([1.0, 2.0]) or TwoSpeedTimes(16, slowdown=4.0), "
                f"got {times!r}"
            )
        if link is not None and not isinstance(link, Link):
            raise TypeError(f"link must be a Link(latency, bandwidth) or None, got {link!r}")
        if isinstance(seed, bool) or not isinstance(seed, int):
            raise TypeError(f"seed must be an integer, got {seed!r}")
        self.times = times
        self.link = link if link is not None else Link()
        self.seed = seed
        self.sharded = False
        self._is_run = False
        self._reset(0.0)

    def _reset(self, message_bytes: float) -> None:
        n = self.times.num_workers
        self.now = 0.0
        self._started = False
        self._message_time = self.link.time(message_bytes) if message_bytes else self.link.latency
        self._duration = self.times.sampler(self.seed)
        self._constant = self.times.constant if self._message_time == 0.0 else None
        self._starts = [array("d") for _ in range(n)] if self.times.depends_on_start else None
        self._heap: list[Arrival] = []
        self._top_delivered = False  # heap[0] is the last arrival, left in place to be replaced by the next dispatch
        self._stale = 0  # entries of the heap whose job was stopped
        self._running: list[Job | None] = [None] * n
        self._queues: dict[int, deque[Job]] = {}
        self._dispatched = [0] * n
        self._num_running = 0
        self._sum_of_starts = 0.0
        self._sum_of_ends = 0.0

    @property
    def num_workers(self) -> int:
        """Number of workers n."""
        return self.times.num_workers

    @property
    def workers(self) -> range:
        """Indices of the workers, 0..n-1."""
        return range(self.times.num_workers)

    def start(self, message_bytes: float = 0.0, *, sharded: bool | None = None) -> SimulatedCluster:
        """A run of this cluster from time 0, independent of every other run.

        `Method.steps` calls it, so that the same cluster object can be given to any number of schedules. A run that has
        not been used yet is returned as it is.

        Args:
            message_bytes: size of a message, in bytes: what the link's bandwidth is divided by.
            sharded: whether every worker has data of its own; then the `shard` of a job is its worker.
        """
        if self._is_run and not self._started:
            run = self
        else:
            run = object.__new__(type(self))
            run.times, run.link, run.seed, run.sharded = self.times, self.link, self.seed, self.sharded
            run._is_run = True
        if sharded is not None:
            run.sharded = sharded
        run._reset(message_bytes)
        return run

    def dispatch(self, worker: int, version: int) -> Job:
        """Give `worker` a job at iterate `version`; a busy worker takes it when it has finished what it has (FIFO).

        Returns:
            The job.

        Raises:
            IndexError: if there is no such worker.
        """
        number = self._dispatched[worker]
        self._dispatched[worker] = number + 1
        job = _new_tuple(Job, (worker, version, number, worker if self.sharded else None))
        self._started = True
        if self._running[worker] is not None:
            self._queues.setdefault(worker, deque()).append(job)
            return job
        self._running[worker] = job
        self._num_running += 1
        now = self.now
        self._sum_of_starts += now
        end = now + self._constant[worker] if self._constant is not None else self._end(job)
        if end < math.inf:
            arrival = _new_tuple(Arrival, (end, worker, job))
            if self._top_delivered:
                self._top_delivered = False
                heapreplace(self._heap, arrival)
            else:
                heappush(self._heap, arrival)
        return job

    def dispatch_all(self, version: int) -> None:
        """Give every worker a job at iterate `version`."""
        for worker in self.workers:
            self.dispatch(worker, version)

    def cancel(self, worker: int) -> Job | None:
        """Stop the job that `worker` is computing and return it; None if the worker is idle.

        A job that is due at this very instant, and has not been delivered, is stopped as well. If jobs wait at the
        worker, the next one starts.
        """
        job = self._running[worker]
        if job is None:
            return None
        self._running[worker] = None
        self._num_running -= 1
        self._sum_of_ends += self.now
        self._stale += 1
        if self._stale > _COMPACT_ABOVE and 2 * self._stale > len(self._heap):
            self._compact()
        if self._queues:
            self._start_queued(worker)
        return job

    def cancel_all(self) -> list[Job]:
        """Stop every job that is being computed or waits, and return them, ordered by worker."""
        stopped: list[Job] = []
        for worker, job in enumerate(self._running):
            if job is not None:
                stopped.append(job)
                stopped.extend(self._queues.pop(worker, ()))
                self._running[worker] = None
        self._sum_of_ends += self.now * self._num_running
        self._num_running = 0
        self._heap.clear()
        self._top_delivered = False
        self._stale = 0
        return stopped

    def next_arrival(self) -> Arrival:
        """Advance the clock to the next job that finishes, and return its arrival.

        Raises:
            NoArrivalError: if no job that is out will ever finish.
        """
        heap = self._heap
        if self._top_delivered:
            heappop(heap)
            self._top_delivered = False
        if self._stale:
            self._drop_stale_top()
        if not heap:
            never = sum(job is not None for job in self._running)
            raise NoArrivalError(
                f"no job will ever arrive at logical time {self.now}: {never} of {self.num_workers} workers compute a "
                f"job that never finishes, the others are idle; with {self.times!r}, use a method that does not wait "
                f"for every worker, or times that are finite"
            )
        arrival = heap[0]
        self._top_delivered = True
        time, worker, _ = arrival
        self.now = time
        self._running[worker] = None
        self._num_running -= 1
        self._sum_of_ends += time
        if self._queues:
            self._start_queued(worker)
        return arrival

    @property
    def busy_time(self) -> float:
        """Time that all workers together have spent computing or communicating until now, useful or not."""
        return self._sum_of_ends - self._sum_of_starts + self._num_running * self.now

    def worker_time(self, job: Job) -> float:
        """How long a job that has been dispatched takes its worker: download, compute and upload, in logical time."""
        start = self._starts[job.worker][job.number] if self._starts is not None else 0.0
        return self._duration(job.worker, job.number, start) + 2 * self._message_time

    def _end(self, job: Job) -> float:
        """When a job that starts now arrives."""
        worker, _, number, _ = job
        compute_from = self.now + self._message_time
        if self._starts is not None:
            starts = self._starts[worker]
            starts.extend([math.nan] * (number - len(starts)))  # jobs that were stopped while they waited
            starts.append(compute_from)
        return compute_from + self._duration(worker, number, compute_from) + self._message_time

    def _start_queued(self, worker: int) -> None:
        queue = self._queues.get(worker)
        if not queue:
            return
        job = queue.popleft()
        if not queue:
            del self._queues[worker]
        self._running[worker] = job
        self._num_running += 1
        self._sum_of_starts += self.now
        end = self.now + self._constant[worker] if self._constant is not None else self._end(job)
        if end < math.inf:
            heappush(self._heap, Arrival(end, worker, job))

    def _drop_stale_top(self) -> None:
        heap, running = self._heap, self._running
        while heap and heap[0].job is not running[heap[0].worker]:
            heappop(heap)
            self._stale = max(0, self._stale - 1)

    def _compact(self) -> None:
        """Rebuild the heap without the stopped jobs: keeps it O(n) however many are stopped, at O(1) per stop."""
        running = self._running
        self._heap = [arrival for arrival in self._heap if arrival.job is running[arrival.worker]]
        heapify(self._heap)
        self._top_delivered = False
        self._stale = 0

    def __repr__(self) -> str:
        return f"SimulatedCluster({self.times!r}, {self.link!r}, seed={self.seed})"
