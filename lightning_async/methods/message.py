"""The values that replicas exchange in one round: read at the snapshot, merged when they have arrived."""

from __future__ import annotations

import torch
from torch import Tensor

from lightning_async.methods.flat import FlatReplicas
from lightning_async.methods.masks import Indices
from lightning_async.methods.merging import working_dtype
from lightning_async.methods.replica_method import ReplicaMethod


class Message:
    """One round's exchange: K values of every replica.

    Memory is n K values from the first snapshot on; a replica that makes no steps while the message travels is read
    when it is merged, and then needs none.

    Args:
        flat: the replicas.
        indices: the coordinates exchanged, ascending; None for all of them.
        memory: of an earlier message, to be used again if it is large enough.
    """

    def __init__(self, flat: FlatReplicas, indices: Indices | None, memory: Tensor | None = None) -> None:
        self.memory = memory
        """Where the values are, or were, kept."""
        self._flat = flat
        self._where = None if indices is None else flat.positions(indices)
        self._values: Tensor | None = None
        self._read: set[int] = set()

    def snapshot(self, replica: int) -> None:
        """Read one replica's values, y, which it is about to change."""
        if self._values is None:
            self._values = self._room()
        if self._where is None:
            self._values[replica].copy_(self._flat.rows[replica])
        else:
            torch.index_select(self._flat.rows[replica], 0, self._where, out=self._values[replica])
        self._read.add(replica)

    def merge(self, method: ReplicaMethod) -> None:
        """Average what was read, and let every replica take it in."""
        rows, where = self._flat.rows, self._where
        if self._read:
            for replica in set(range(len(rows))) - self._read:
                self.snapshot(replica)
        values = self._values
        if values is None:
            values = rows if where is None else rows.index_select(1, where)
        mean = method.outer(torch.mean(values, 0, dtype=working_dtype(values.dtype)))
        scratch = torch.empty_like(mean)
        for row, y in zip(rows, values, strict=True):
            method.rule(row, where, mean, y, scratch)

    def state_dict(self) -> dict[int, Tensor]:
        """What was read, by replica."""
        return {} if self._values is None else {replica: self._values[replica] for replica in sorted(self._read)}

    def load_state_dict(self, state: dict[int, Tensor]) -> None:
        """Restore what `state_dict` returned."""
        for replica, values in state.items():
            self.snapshot(replica)
            assert self._values is not None
            self._values[replica].copy_(values)

    def _room(self) -> Tensor:
        rows = self._flat.rows
        shape = rows.shape if self._where is None else (len(rows), len(self._where))
        size = shape[0] * shape[1]
        if self.memory is None or self.memory.numel() < size:
            self.memory = rows.new_empty(size)
        return self.memory[:size].view(shape)
