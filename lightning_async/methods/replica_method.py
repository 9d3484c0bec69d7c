"""What a replica method is: rounds of local steps, a set of coordinates to exchange, and a rule to merge them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any

import numpy as np
from torch import Tensor

from lightning_async.arguments import real
from lightning_async.described import Described
from lightning_async.methods.masks import Indices
from lightning_async.methods.merging import MergeRule
from lightning_async.methods.rounds import Round, RoundClock
from lightning_async.simulation import SimulatedCluster, Step
from lightning_async.simulation.waiting import check_nobody_misses


class ReplicaMethod(Described, ABC):
    """An algorithm in which every worker trains a replica of the model and exchanges parameters from time to time.

    A `Step` is one local step of one replica; its job's `version` is the round. Rounds have no tensor in them: they
    follow from worker times, the link, and the number of coordinates exchanged. A subclass says which coordinates
    those are (`size`, `indices`), and how a replica takes in their mean (`rule`).

    Args:
        compute_window: logical time for local steps before a message, at least the fastest step.

    Raises:
        TypeError: if the window is not a number.
        ValueError: if it is not positive and finite.
    """

    overlap: bool = False
    """Whether workers go on with local steps while a message travels."""

    silent: bool = False
    """Whether nothing is ever exchanged, whatever the size of the model."""

    rule: MergeRule
    """How a replica takes in the mean."""

    _num_coordinates: int | None = None
    _bytes_per_coordinate: float | None = None

    def __init__(self, compute_window: float) -> None:
        self.compute_window = real("compute_window", compute_window, above=0.0)

    @abstractmethod
    def size(self, round: int, num_coordinates: int, seed: int) -> int:
        """How many of the d coordinates a round exchanges, K; 0 if it exchanges nothing."""

    @abstractmethod
    def indices(self, round: int, num_coordinates: int, seed: int) -> Indices | None:
        """Which coordinates a round exchanges, ascending; None for all. A function of its arguments alone."""

    def bind(self, num_coordinates: int, bytes_per_coordinate: float) -> None:
        """Tell the schedule how large the model is, so that messages can have a size.

        Args:
            num_coordinates: number of trainable scalars, d.
            bytes_per_coordinate: size of one of them in a message, in bytes.
        """
        self._num_coordinates, self._bytes_per_coordinate = num_coordinates, bytes_per_coordinate

    def rounds(self, cluster: SimulatedCluster) -> Iterator[Round]:
        """The rounds, from time 0, one after the other, without end.

        Raises:
            TypeError: if it is not a `SimulatedCluster`.
            ValueError: if the compute window is shorter than the fastest step.
            RuntimeError: if the time of a message depends on the size of the model, and `bind` was not called.
        """
        self.check_cluster(cluster)
        return self._rounds(cluster)

    def steps(self, cluster: SimulatedCluster) -> Iterator[Step]:
        """The local steps of all replicas in order of logical time."""
        return (step for round in self.rounds(cluster) for step in round.steps)

    def message(self, round: int, cluster: SimulatedCluster) -> tuple[float, int | None, float | None]:
        """Logical time, coordinates and bytes (per worker) of a round's message.

        Nothing is sent, in no time, if there are no coordinates. While the size of the model is not known, a message
        takes the latency, and a finite bandwidth is an error.

        Raises:
            RuntimeError: if the bandwidth is finite, and `bind` was not called.
        """
        if self._num_coordinates is None or self._bytes_per_coordinate is None:
            if self.silent:
                return 0.0, 0, 0.0
            if cluster.link.bandwidth < np.inf:
                raise RuntimeError(
                    f"the link has a finite bandwidth ({cluster.link.bandwidth} bytes per unit of logical time), so "
                    f"that the schedule depends on the size of the model: call method.bind(num_coordinates, "
                    f"bytes_per_coordinate) before method.steps(cluster)"
                )
            return cluster.link.latency, None, None
        size = self.size(round, self._num_coordinates, cluster.seed)
        num_bytes = float(size * self._bytes_per_coordinate)
        return (cluster.link.time(num_bytes) if size else 0.0), size, num_bytes

    def check_cluster(self, cluster: SimulatedCluster) -> None:
        """Refuse workers that cannot make a local step in the compute window.

        Raises:
            TypeError: if it is not a `SimulatedCluster`.
            NoArrivalError: if a worker is bound to get a step that it never finishes.
            ValueError: if even the fastest worker cannot.
        """
        if not isinstance(cluster, SimulatedCluster):
            raise TypeError(f"the rounds of {type(self).__name__} need a SimulatedCluster, got {cluster!r}")
        check_nobody_misses(cluster.times, type(self).__name__)
        duration = cluster.times.sampler(cluster.seed)
        fastest = min(cluster.times.constant or (duration(worker, 0, 0.0) for worker in cluster.workers))
        if fastest == np.inf:
            raise ValueError(
                f"no worker ever finishes its first local step with {cluster.times!r}, but a round waits for one step "
                f"of every worker: use times that are finite"
            )
        if self.compute_window * (1 + 1e-9) < fastest:
            raise ValueError(
                f"compute_window={self.compute_window:g} is shorter than the fastest local step, {fastest:g} of "
                f"logical time with {cluster.times!r}: give at least compute_window={fastest:g}"
            )

    def check_budget(self, cluster: SimulatedCluster, max_time: float) -> None:
        """Refuse a budget of logical time that ends before the first merge.

        Raises:
            ValueError: with how long the first round takes, and why.
        """
        snapshot = RoundClock(cluster, self.compute_window).snapshot()
        travels = self.message(0, cluster)[0]
        if snapshot + travels > max_time:
            raise ValueError(
                f"the first round of {type(self).__name__} ends at logical time {snapshot + travels:g}, after the "
                f"budget of {max_time:g}, so that replicas would never be merged: local steps take {snapshot:g}, the "
                f"message {travels:g} ({cluster.link!r}). Use a longer budget, a shorter compute_window, a faster "
                f"link, or fewer coordinates"
            )

    def _rounds(self, cluster: SimulatedCluster) -> Iterator[Round]:
        clock = RoundClock(cluster, self.compute_window)
        index = 0
        while True:
            communication, size, num_bytes = self.message(index, cluster)
            yield clock.next_round(communication, self.overlap, size, num_bytes)
            index += 1

    def jobs_per_step(self, num_workers: int) -> int:
        """1: a step is one local step."""
        return 1

    def outer(self, mean: Tensor, where: Tensor | None) -> Tensor:
        """What replicas take in place of the mean of what they sent: for methods with an outer optimizer.

        Called once for every coordinate exchanged: once a round, or for one block of its coordinates after the other.

        Args:
            mean: `(K,)`, in at least 32 bits.
            where: `(K,)` ascending positions of these coordinates in the flat parameters; None for all of them.
        """
        return mean

    def begin(self, initial: Tensor) -> None:
        """Called before a run from step 0, with the flat parameters that all replicas begin at."""
        return

    def state_dict(self) -> dict[str, Any]:
        """Tensor state that outlives a round; empty for most methods."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore what `state_dict` returned.

        Raises:
            ValueError: if the method has no state.
        """
        if state:
            raise ValueError(f"{type(self).__name__} has no state, but was given {sorted(state)}")


class DenseMethod(ReplicaMethod):
    """A replica method that exchanges all coordinates in every round."""

    def size(self, round: int, num_coordinates: int, seed: int) -> int:
        """All coordinates, d."""
        return num_coordinates

    def indices(self, round: int, num_coordinates: int, seed: int) -> Indices | None:
        """None: all of them."""
        return None
