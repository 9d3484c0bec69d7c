"""Where a run is in its data, and which mini-batches its next steps read."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from lightning_async.data.minibatches import NOTHING, Request
from lightning_async.data.orders import Order, Position
from lightning_async.simulation import Step

SHARED = -1
"""The stream that all workers draw from, if they have none of their own."""


class Cursor:
    """The position in every stream of data, after the steps that have been *made* (`commit`).

    What was read for steps that have not been made is known as well, and forgotten when reading begins anew
    (`rewind`), so that nothing is lost or repeated when a run is interrupted or an epoch is left early.

    Args:
        orders: the stream of every shard; empty if the data can only be read in order.
        jobs_per_step: how many jobs every step has; None if that varies.
        schedule: makes the run's schedule anew; read if the number of jobs varies or workers own their data.
        sharded: whether workers own their data.
    """

    def __init__(
        self,
        orders: Mapping[int, Order],
        *,
        jobs_per_step: int | None,
        schedule: Callable[[], Iterator[Step]],
        sharded: bool,
    ) -> None:
        self.positions: dict[int, Position] = {}
        """Next mini-batch of every shard that has been read, after the steps that were made."""
        self.completed = 0
        """Number of steps that were made."""
        self._orders = orders
        self._fixed = None if sharded or jobs_per_step is None else (None,) * jobs_per_step
        self._make_schedule = schedule
        self._schedule: Iterator[Step] | None = None
        self._drawn: deque[tuple[int | None, ...]] = deque()  # shards of the jobs of steps that were not yet made
        self._read: deque[dict[int, Position]] = deque()  # positions after each step that was read and not yet made
        self._requested: deque[tuple[int, Position]] = deque()

    def next_step(self) -> tuple[int | None, ...]:
        """The shards of the jobs of the first step that has not been read; None is the shared stream."""
        return self._step(len(self._read))

    def step_read(self, shards: Sequence[int | None]) -> None:
        """The mini-batches of the next step have come from the loader, in the order of `requests`."""
        after: dict[int, Position] = {}
        if self._orders:
            for _ in shards:
                shard, position = self._requested.popleft()
                after[shard] = Position(position.epoch, position.batch + 1)
        self._read.append(after)

    def commit(self) -> None:
        """The step that was read first and not committed yet has been made."""
        self.completed += 1
        if self._read:
            self.positions.update(self._read.popleft())
        if self._drawn:
            self._drawn.popleft()

    def rewind(self) -> None:
        """Forget what was read for steps that have not been made."""
        self._read.clear()

    def seek(self, completed: int, positions: Mapping[int, tuple[int, int]]) -> None:
        """Go to the position after `completed` steps."""
        self.completed = completed
        self.positions = {shard: Position(*position) for shard, position in positions.items()}
        self._schedule = None
        self._drawn.clear()
        self._read.clear()

    def requests(self) -> Iterator[Request]:
        """What a loader is to read, from the first step that was not made on; it may run ahead of what is made."""
        streams: dict[int, Iterator[tuple[Position, Any]]] = {}
        self._requested.clear()
        ahead = 0
        completed = self.completed
        while True:
            ahead -= self.completed - completed  # steps made since then have left the front of the queue
            completed = self.completed
            shards = self._step(ahead)
            ahead += 1
            if not shards:
                yield NOTHING  # so that reading ahead comes to an end if no step has a job any more
            for owner in shards:
                shard = SHARED if owner is None else owner
                if shard not in streams:
                    streams[shard] = self._orders[shard].read_from(self.positions.get(shard, Position()))
                position, indices = next(streams[shard])
                self._requested.append((shard, position))
                yield Request((shard, *position), indices)

    def _step(self, ahead: int) -> tuple[int | None, ...]:
        """The shards of the jobs of the step that comes `ahead` steps after the last one made."""
        if self._fixed is not None:
            return self._fixed
        while len(self._drawn) <= ahead:
            self._drawn.append(self._draw())
        return self._drawn[ahead]

    def _draw(self) -> tuple[int | None, ...]:
        if self._schedule is None:
            self._schedule = self._make_schedule()
            for _ in range(self.completed + len(self._drawn)):
                next(self._schedule)
        return tuple(job.shard for job in next(self._schedule).jobs)
