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
from lightning_async.methods.replica_method_checks import check_complete, checked_indices, checked_size
from lightning_async.methods.rounds import Round, RoundClock
from lightning_async.simulation import SimulatedCluster, Step
from lightning_async.simulation.waiting import check_nobody_misses


class ReplicaMethod(Described, ABC):
    """An algorithm in which every worker trains a replica of the model and exchanges parameters from time to time.

    A `Step` is one local step of one replica; its job's `version` is the round. Rounds have no tensor in them: they
    follow from worker times, the link, and the number of coordinates exchanged. A subclass says which coordinates
    those are (`size`, `indices`), and how a replica takes in their mean (`rule`); with an outer optimizer also what
    that mean becomes before (`begin`, `outer`, and what they keep: `state_dict`, `load_state_dict`).

    Constructor arguments are kept in attributes of their names: a method is shown and compared by them, and a run is
    only resumed with one that compares equal. A run works on a shallow copy of the method, so that what changes during
    it belongs to `begin`, not to the constructor.

    Coordinates are counted from 0 to d - 1: the trainable parameters one after the other, in the order of the module
    or list, each in the order of its memory (row after row, if it is contiguous). In a row of the replicas' buffer
    every parameter begins at a multiple of 64 bytes. A row is therefore somewhat longer than d, and positions in it,
    which are what `outer` is given, are not coordinates; places that belong to no parameter are zero and do no harm.

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
    """How a replica takes in the mean, or what `outer` has made of it: `Mixing`, `Corrected`, or one of your own."""

    _num_coordinates: int | None = None
    _bytes_per_coordinate: float | None = None

    def __init__(self, compute_window: float) -> None:
        self.compute_window = real("compute_window", compute_window, above=0.0)

    @abstractmethod
    def size(self, round: int, num_coordinates: int, seed: int) -> int:
        """How many of the d coordinates a round exchanges, K; 0 if it exchanges nothing."""

    @abstractmethod
    def indices(self, round: int, num_coordinates: int, seed: int) -> Indices | None:
        """Which coordinates a round exchanges: `size` of them, `(K,)`, ascending; None for all.

        A function of its arguments alone: a round that is resumed asks again.
        """

    def checked_indices(self, round: int, num_coordinates: int, seed: int, size: int) -> Indices | None:
        """What `indices` returns, with every promise checked.

        Args:
            round: number of rounds before this one.
            num_coordinates: d.
            seed: the cluster's.
            size: K, what `size` has returned for the round.

        Raises:
            TypeError: if it is neither a one-dimensional array of integers nor None.
            ValueError: if it is not `size` ascending coordinates from 0 to d - 1.
        """
        return checked_indices(self, round, num_coordinates, seed, size)

    @property
    def has_outer(self) -> bool:
        """Whether the method has an `outer` of its own. If not, a round's coordinates may be merged in blocks."""
        return getattr(self.outer, "__func__", None) is not ReplicaMethod.outer

    @property
    def forgets_its_state(self) -> bool:
        """Whether the method has a `begin` of its own, and no `state_dict` or no `load_state_dict`."""
        own, base = type(self), ReplicaMethod
        saves = own.state_dict is not base.state_dict and own.load_state_dict is not base.load_state_dict
        return own.begin is not base.begin and not saves

    def bind(self, num_coordinates: int, bytes_per_coordinate: float) -> None:
        """Tell the schedule how large the model is, so that messages can have a size.

        Args:
            num_coordinates: number of trainable scalars, d; a row that `begin` and `outer` are given may be longer.
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
            TypeError: if `size` returns something that is no integer.
            ValueError: if it is not from 0 to d.
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
        size = checked_size(self, round, self._num_coordinates, cluster.seed)
        num_bytes = float(size * self._bytes_per_coordinate)
        return (cluster.link.time(num_bytes) if size else 0.0), size, num_bytes

    def check_cluster(self, cluster: SimulatedCluster) -> None:
        """Refuse workers that cannot make a local step in the compute window, and a method that is not complete.

        Raises:
            TypeError: if it is not a `SimulatedCluster`, the method has no window or no rule, or does not keep a
                constructor argument in an attribute of its name.
            NoArrivalError: if a worker is bound to get a step that it never finishes.
            ValueError: if even the fastest worker cannot.
        """
        if not isinstance(cluster, SimulatedCluster):
            raise TypeError(f"the rounds of {type(self).__name__} need a SimulatedCluster, got {cluster!r}")
        check_complete(self)
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
        """Refuse a budget of logical time that ends before the first merge, if there ever is one.

        Raises:
            ValueError: with how long the first round takes, and why.
        """
        if self.silent:
            return
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

        Of a subclass that overrides it, called exactly once for every round that exchanges something, in the order of
        rounds, with all that the round exchanges: it may count rounds.

        Args:
            mean: `(K,)`, in at least 32 bits, and the method's to change. If `where` is None, it is a whole row, of the
                length of `begin`'s `initial`.
            where: `(K,)` ascending positions of these values in such a row; None for all of it. Of a state like
                `initial`, `state[where]` are the values that belong to `mean`.

        Returns:
            A tensor of the shape and device of `mean`, of its dtype or a wider one. It is only read, so that it may be
            the method's own state.
        """
        return mean

    def begin(self, initial: Tensor) -> None:
        """Make the state of a run: called once before its first step, and before a state is loaded to resume it.

        Args:
            initial: the flat parameters that all replicas begin at, one row, in at least 32 bits; a copy, which belongs
                to the method.
        """
        return

    def state_dict(self) -> dict[str, Any]:
        """State that outlives a round, and is saved in a checkpoint; empty for most methods.

        A strategy refuses a method with a `begin`, and without this and `load_state_dict`.
        """
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore what `state_dict` returned, after `begin`.

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
