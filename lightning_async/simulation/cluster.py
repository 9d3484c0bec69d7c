"""The event queue that runs a schedule in logical time."""

from __future__ import annotations

import math
import sys
from collections import deque
from collections.abc import Collection
from heapq import heapify, heappop, heappush, heapreplace

from lightning_async.arguments import random_seed
from lightning_async.simulation.job_times import JobTimes
from lightning_async.simulation.links import Link
from lightning_async.simulation.records import Arrival, Job
from lightning_async.simulation.waiting import nothing_arrives, too_late
from lightning_async.simulation.worker_times import WorkerTimes, check_workers

_new_tuple = tuple.__new__  # skips the generated __new__ of a NamedTuple, which costs more than the tuple itself
_COMPACT_ABOVE = 64


class SimulatedCluster:
    """n workers of given speeds on a simulated clock.

    The state is a heap of arrivals: an event costs O(log n), nothing is computed. The unit of logical time is that of
    `times`. Simultaneous arrivals come in the order of their worker index.

    Args:
        times: how long each worker computes one job.
        link: how long a message between server and worker takes. A job costs download + compute + upload; by default
            messages are free.
        seed: seed, 0 to 2**64 - 1, of the worker times and of everything else random in a schedule. Two methods with
            the same seed see the same time for the same (worker, job number).

    Raises:
        TypeError: if `times` is not a `WorkerTimes`, `link` not a `Link` or `seed` not an integer.
        ValueError: if `times` has no worker, or constant times that are negative, NaN, or not one for each worker, or
            the seed is out of range.

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
        check_workers(times)
        self.times = times
        self.link = link if link is not None else Link()
        self.seed = random_seed(seed)
        self.sharded = False
        self.gradients_per_job = 1
        self._reset(None)

    def _reset(self, message_bytes: float | None) -> None:
        self._num_workers = n = self.times.num_workers
        self.now = 0.0
        self.horizon = sys.float_info.max  # nothing that arrives later is delivered: `next_arrival` raises
        self._job_times = JobTimes(self.times, self.link, self.seed, message_bytes, self.gradients_per_job)
        self._constant = self._job_times.constant
        # (time, worker, job number): numbers alone, which the garbage collector need not look at.
        self._heap: list[tuple[float, int, int]] = []
        self._top_delivered = False  # heap[0] is the last arrival, left in place to be replaced by the next dispatch
        self._stale = 0  # entries of the heap whose job was stopped
        self._endless: set[int] = set()  # workers whose job never finishes: it is not in the heap
        self._running: list[Job | None] = [None] * n
        self._queues: dict[int, deque[Job]] = {}
        self._dispatched = [0] * n
        self._idle = 0.0  # time that workers have spent without a job, all together
        self.arrived = 0
        """Number of jobs that have arrived."""

    @property
    def num_workers(self) -> int:
        """Number of workers n."""
        return self.times.num_workers

    @property
    def workers(self) -> range:
        """Indices of the workers, 0..n-1."""
        return range(self.times.num_workers)

    @property
    def endless(self) -> Collection[int]:
        """Workers that compute a job which never finishes."""
        return self._endless

    def start(
        self,
        message_bytes: float | None = None,
        *,
        sharded: bool | None = None,
        gradients_per_job: int | None = None,
    ) -> SimulatedCluster:
        """A run of this cluster from time 0, independent of every other run.

        `Method.steps` calls it, so that the same cluster object can be given to any number of schedules.

        Args:
            message_bytes: size of a message, in bytes: what the link's bandwidth is divided by. May be left out if the
                bandwidth is infinite.
            sharded: whether every worker has data of its own; then the `shard` of a job is its worker.
            gradients_per_job: how many gradients a job computes, one after the other: job j those that are numbered
                j m, ..., j m + m - 1. What is left out is as in this cluster, one if it is not a run.
        """
        run = object.__new__(type(self))
        run.times, run.link, run.seed = self.times, self.link, self.seed
        run.sharded = self.sharded if sharded is None else sharded
        run.gradients_per_job = self.gradients_per_job if gradients_per_job is None else gradients_per_job
        run._reset(message_bytes)
        return run

    def __getstate__(self) -> dict[str, object]:
        # A run is made of closures and generators; what is copied, or sent to another process, is what it is a run of.
        kept = ("times", "link", "seed", "sharded", "gradients_per_job")
        return {name: getattr(self, name) for name in kept}

    def __setstate__(self, state: dict[str, object]) -> None:
        vars(self).update(state)
        self._reset(None)

    def dispatch(self, worker: int, version: int) -> Job:
        """Give `worker` a job at iterate `version`; a busy worker takes it when it has finished what it has (FIFO).

        Returns:
            The job.

        Raises:
            IndexError: if there is no such worker.
            RuntimeError: if the time of a message depends on its size, and `start` was not told the size.
            ValueError: if the worker times give a duration that is negative or NaN.
        """
        try:
            number = self._dispatched[worker if worker >= 0 else self._num_workers]
        except IndexError:
            raise self._no_such(worker) from None
        self._dispatched[worker] = number + 1
        job = _new_tuple(Job, (worker, version, number, worker if self.sharded else None))
        if self._running[worker] is not None:
            self._queues.setdefault(worker, deque()).append(job)
        elif self._constant is not None and self._top_delivered:
            # What `_begin` does, for most of the events of most schedules.
            self._running[worker] = job
            self._top_delivered = False
            heapreplace(self._heap, (self.now + self._constant[worker], worker, number))
        else:
            self._begin(worker, job)
        return job

    def dispatch_all(self, version: int) -> None:
        """Give every worker a job at iterate `version`."""
        for worker in self.workers:
            self.dispatch(worker, version)

    def cancel(self, worker: int) -> Job | None:
        """Stop the job that `worker` is computing and return it; None if the worker is idle.

        A job that is due at this instant, and was not delivered, is stopped as well. Of jobs that wait the next starts.

        Raises:
            IndexError: if there is no such worker.
        """
        if not 0 <= worker < self._num_workers:
            raise self._no_such(worker)
        job = self._running[worker]
        if job is None:
            return None
        self._running[worker] = None
        if worker in self._endless:
            self._endless.remove(worker)
        else:
            self._stale += 1
        if self._stale > _COMPACT_ABOVE and 2 * self._stale > len(self._heap):
            self._compact()
        if self._queues:
            self._begin_queued(worker)
        return job

    def cancel_all(self) -> list[Job]:
        """Stop every job that is being computed or waits, and return them, ordered by worker."""
        stopped: list[Job] = []
        for worker, job in enumerate(self._running):
            if job is not None:
                stopped.append(job)
                stopped.extend(self._queues.pop(worker, ()))
                self._running[worker] = None
        self._heap.clear()
        self._endless.clear()
        self._top_delivered = False
        self._stale = 0
        return stopped

    def next_arrival(self) -> Arrival:
        """Advance the clock to the next job that finishes, and return its arrival.

        Raises:
            NoArrivalError: if no job that is out will ever finish.
            PastHorizon: if the next one finishes after `horizon`; such a run is over.
        """
        heap = self._heap
        if self._top_delivered:
            heappop(heap)
            self._top_delivered = False
        if self._stale:
            self._drop_stale_top()
        try:
            time, worker, _ = heap[0]
        except IndexError:
            raise nothing_arrives(len(self._endless), self.now, self.times) from None
        if time > self.horizon:
            raise too_late(time, self.now, self.times)
        self._top_delivered = True
        if len(heap) < self._num_workers or self._stale:
            computing = len(heap) - self._stale + len(self._endless)
            self._idle += (self._num_workers - computing) * (time - self.now)
        self.now = time
        job = self._running[worker]
        self._running[worker] = None
        self.arrived += 1
        if self._queues:
            self._begin_queued(worker)
        return _new_tuple(Arrival, (time, worker, job))

    def arrivals_until(self, time: float) -> list[Arrival]:
        """Advance the clock to `time`, and return the jobs that have finished by then, in order.

        What is due at `time` but for rounding (1e-9 of the wait) has finished; the clock then shows its end.

        Raises:
            ValueError: if the clock has passed `time`.
        """
        if not time >= self.now:
            raise ValueError(f"the clock shows {self.now} and cannot be put back to {time}")
        limit, arrivals = time + 1e-9 * (time - self.now), []
        while self._next_due() <= limit:
            arrivals.append(self.next_arrival())
        time = max(time, self.now)
        computing = len(self._heap) - self._stale + len(self._endless)
        self._idle += (self._num_workers - computing) * (time - self.now)
        self.now = time
        return arrivals

    @property
    def busy_time(self) -> float:
        """Time that all workers together have spent computing or communicating until now, useful or not."""
        return self._num_workers * self.now - self._idle

    def worker_time(self, job: Job) -> float:
        """How long a job that has been dispatched takes its worker: download, compute and upload, in logical time."""
        return self._job_times.worker_time(job)

    def _no_such(self, worker: int) -> IndexError:
        return IndexError(f"workers are numbered 0..{self.num_workers - 1}, got {worker}")

    def _begin(self, worker: int, job: Job) -> None:
        """Let an idle worker compute."""
        self._running[worker] = job
        end = self.now + self._constant[worker] if self._constant is not None else self._job_times.end(job, self.now)
        if end < math.inf:
            entry = (end, worker, job.number)
            if self._top_delivered:
                self._top_delivered = False
                heapreplace(self._heap, entry)
            else:
                heappush(self._heap, entry)
        else:
            self._endless.add(worker)

    def _begin_queued(self, worker: int) -> None:
        """Let a worker that has become idle compute what waits at it, if anything."""
        queue = self._queues.get(worker)
        if queue:
            job = queue.popleft()
            if not queue:
                del self._queues[worker]
            self._begin(worker, job)

    def _is_running(self, entry: tuple[float, int, int]) -> bool:
        _, worker, number = entry
        job = self._running[worker]
        return job is not None and job.number == number

    def _drop_stale_top(self) -> None:
        heap = self._heap
        while heap and not self._is_running(heap[0]):
            heappop(heap)
            self._stale -= 1

    def _next_due(self) -> float:
        """When the next job finishes; infinite if none will."""
        if self._top_delivered:
            heappop(self._heap)
        self._top_delivered = False
        self._drop_stale_top()
        return self._heap[0][0] if self._heap else math.inf

    def _compact(self) -> None:
        """Rebuild the heap without the stopped jobs: keeps it O(n) however many are stopped, at O(1) per stop."""
        self._heap = list(filter(self._is_running, self._heap))
        heapify(self._heap)
        self._top_delivered = False
        self._stale = 0

    def __repr__(self) -> str:
        return f"SimulatedCluster({self.times!r}, {self.link!r}, seed={self.seed})"
