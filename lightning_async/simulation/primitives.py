"""The primitives a schedule is written with."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol

from typing_extensions import Self

from lightning_async.simulation.records import Arrival, Job


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

    @property
    def endless(self) -> Collection[int]:
        """Workers that compute a job which is known never to finish."""

    def start(self, message_bytes: float | None = None, *, gradients_per_job: int | None = None) -> Self:
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

    def arrivals_until(self, time: float) -> list[Arrival]:
        """Wait until `time`, and return the jobs that have finished by then."""
