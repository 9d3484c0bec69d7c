"""The values that replicas exchange in one round: read at the snapshot, merged when they have arrived."""

from __future__ import annotations

import torch
from torch import Tensor

from lightning_async.methods.flat import FlatReplicas
from lightning_async.methods.masks import Indices
from lightning_async.methods.merging import read, working_dtype
from lightning_async.methods.replica_method import ReplicaMethod
from lightning_async.methods.replica_method_checks import outer_mean

_BLOCK = 4096
"""Coordinates that are read and merged in one go: the cache lines touched should still be in a cache for the merge, and
there should be work for several threads."""


class Message:
    """One round's exchange: K values of every replica.

    Random access is what a sparse exchange costs, so that all replicas are read in one kernel and merged in one:
    torch then gives every thread replicas of its own.

    Args:
        flat: the n replicas.
        indices: the coordinates exchanged, ascending; None for all of them.
        memory: of an earlier message, to be used again if it is large enough.
    """

    def __init__(self, flat: FlatReplicas, indices: Indices | None, memory: Tensor | None = None) -> None:
        self.memory = memory
        """Where values are kept: n K of them, or n of a block if nothing else is needed; of all d, only a snapshot."""
        self._flat = flat
        self._where = None if indices is None else flat.positions(indices)
        self._values: Tensor | None = None

    def snapshot(self) -> None:
        """Read what the replicas send, y, `(n, K)`: for when they make steps before the merge."""
        self._values = self._read(self._where)

    def merge(self, method: ReplicaMethod) -> None:
        """Average what was read at the snapshot, or what is there now, and let every replica take it in."""
        where = self._where
        if self._values is not None:
            self._merge(method, where, self._values)
        elif where is None:
            self._merge(method, None, self._flat.rows)
        elif method.has_outer:  # which is given all of a round at once
            self._merge(method, where, self._read(where))
        else:
            for block in torch.split(where, _BLOCK):
                self._merge(method, block, self._read(block))
        self._values = None

    def _read(self, where: Tensor | None) -> Tensor:
        rows = self._flat.rows
        columns = rows.shape[1] if where is None else len(where)
        size = len(rows) * columns
        if self.memory is None or self.memory.numel() < size:
            self.memory = rows.new_empty(size)
        return read(rows, where, out=self.memory[:size].view(len(rows), columns))

    def _merge(self, method: ReplicaMethod, where: Tensor | None, y: Tensor) -> None:
        rows = self._flat.rows
        mean = torch.mean(y, 0, dtype=working_dtype(y.dtype))
        if method.has_outer:
            mean = outer_mean(method, mean, where)
        if y is not rows and y.dtype == mean.dtype:
            method.rule(rows, where, mean, y, scratch=y)
        else:
            scratch = mean.new_empty(1, len(mean))
            for replica in range(len(rows)):
                one = slice(replica, replica + 1)
                method.rule(rows[one], where, mean, y[one], scratch)

    def state_dict(self) -> dict[str, Tensor]:
        """What was read, if anything."""
        return {} if self._values is None else {"values": self._values}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Restore what `state_dict` returned after a snapshot."""
        self.snapshot()
        assert self._values is not None
        self._values.copy_(state["values"])
