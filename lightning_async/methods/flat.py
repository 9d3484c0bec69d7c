"""Replicas of a list of tensors in one flat buffer."""

from __future__ import annotations

import mmap
from collections.abc import Sequence
from contextlib import suppress

import numpy as np
import torch
from torch import Tensor
from torch.utils.dlpack import from_dlpack, to_dlpack  # type: ignore[attr-defined]  # documented, but not in __all__

from lightning_async.methods.masks import Indices

_ALIGNMENT = 64  # bytes, as of torch's own allocations: kernels, and on some machines the last bits, depend on it

_LARGE = 2**22  # bytes


class FlatReplicas:
    """n copies of some tensors: one row per copy, and in it one view per tensor.

    Every tensor begins at a multiple of 64 bytes, as it would in memory of its own. The gaps are zero in all rows, and
    do no harm in sums and means over rows; `compact` leaves them out.

    A tensor that fills its memory keeps its strides, such as a convolution's weight in channels_last; any other, such
    as an expanded one, becomes contiguous. Coordinates are counted without gaps, tensor after tensor, and within a
    tensor in the order of its memory.

    Args:
        tensors: what is copied, at least one tensor, all of one dtype and on one device.
        num_replicas: number of copies n.

    Raises:
        ValueError: if there is no tensor, or they differ in dtype or device.

    Example:
        >>> flat = FlatReplicas([torch.ones(2), torch.zeros(1, 3)], num_replicas=4)
        >>> flat.compact().shape, flat.views(2)[1].shape
        (torch.Size([4, 5]), torch.Size([1, 3]))
    """

    def __init__(self, tensors: Sequence[Tensor], num_replicas: int) -> None:
        if not tensors:
            raise ValueError("there is nothing to train: the list of parameters is empty")
        kinds = {(tensor.dtype, tensor.device) for tensor in tensors}
        if len(kinds) > 1:
            listed = ", ".join(sorted(f"{dtype} on {device}" for dtype, device in kinds))
            raise ValueError(
                f"replicas are kept in one flat buffer, so that all trainable parameters must have the same dtype and "
                f"device, got {listed}: convert the module, for example with module.float(), or freeze the others"
            )
        (dtype, device), step = kinds.pop(), _ALIGNMENT // tensors[0].element_size()
        self._shapes = [tensor.shape for tensor in tensors]
        self.strides = [_kept(tensor.shape, tensor.stride()) for tensor in tensors]
        """How the tensors lie in memory."""
        self._sizes = np.array([tensor.numel() for tensor in tensors])
        padded = -(-self._sizes // step) * step
        self._offsets = np.cumsum(padded) - padded
        self._ends = np.cumsum(self._sizes)
        self._gaps = self._offsets - (self._ends - self._sizes)  # before each tensor, in all
        self.num_coordinates = int(self._sizes.sum())
        """Number of scalars in one copy, d, without gaps."""
        self._memory = _zeros(num_replicas, int(padded.sum()), dtype, device)
        # If torch moves the storage of the rows, what the views still point to must not be freed.
        self.rows = _without_offset(self._memory) if self._memory.is_cpu else self._memory
        """The copies, `(n, d)` with gaps."""
        self._make_views()
        for view, tensor in zip(self._views[0], tensors, strict=True):
            view.copy_(tensor.detach())
        self.rows[1:] = self.rows[0]

    def views(self, replica: int) -> list[Tensor]:
        """The tensors of one copy, as views."""
        return self._views[replica]

    def _make_views(self) -> None:
        self._views = [self.split(row) for row in self._memory]
        self._addresses = self._current_addresses()

    def _current_addresses(self) -> list[list[int]]:
        return [list(map(Tensor.data_ptr, tensors)) for tensors in (*self._views, [self.rows])]

    def check_in_place(self) -> None:
        """Refuse to go on if the rows and the views of them are not the same memory any more.

        Raises:
            RuntimeError: with the tensor that was moved.
        """
        addresses = self._current_addresses()
        if addresses == self._addresses:
            return
        if addresses[-1] != self._addresses[-1]:
            raise _moved("the buffer of all replicas", "replicas.clone()")
        for replica, (now, before) in enumerate(zip(addresses, self._addresses, strict=True)):
            moved = [a != b for a, b in zip(now, before, strict=True)]
            if any(moved):
                raise _moved(f"parameter {moved.index(True)} of replica {replica}", "parameter.detach().clone()")

    def split(self, row: Tensor) -> list[Tensor]:
        """The tensors of a row of somebody else, as views."""
        parts = self._parts(row)
        if row.is_cpu:
            parts = [_without_offset(part) for part in parts]
        return [
            part.as_strided(shape, strides)
            for part, shape, strides in zip(parts, self._shapes, self.strides, strict=True)
        ]

    def positions(self, indices: Indices) -> Tensor:
        """Where in a row coordinates are; both ascending."""
        if self._gaps[-1]:
            ends = np.searchsorted(indices, self._ends)
            indices = indices + np.repeat(self._gaps, np.diff(ends, prepend=0))
        return torch.from_numpy(indices).to(self.rows.device)

    def compact(self) -> Tensor:
        """The copies without gaps, one column per coordinate, `(n, d)`: the rows themselves if there are none."""
        if self.rows.shape[1] == self.num_coordinates:
            return self.rows
        return torch.cat(self._parts(self.rows), dim=1)

    def load(self, compact: Tensor, strides: Sequence[Sequence[int]] | None = None) -> None:
        """Take over what `compact` returned, and the `strides` there were then; other ones make all views anew.

        Columns are in the order of the memory, so that with other strides they would belong to other elements.
        """
        if strides is not None and list(map(tuple, strides)) != self.strides:
            self.strides = [_kept(shape, of) for shape, of in zip(self._shapes, strides, strict=True)]
            self._make_views()
        columns = torch.split(compact, self._sizes.tolist(), dim=1)
        for part, loaded in zip(self._parts(self.rows), columns, strict=True):
            part.copy_(loaded)

    def mean(self) -> Tensor:
        """The mean of the copies, one row with gaps."""
        return self.rows.mean(0)

    def disagreement(self) -> float:
        """Sum over copies of the squared distance to the mean."""
        mean = self.rows.mean(0)
        dtype = torch.promote_types(mean.dtype, torch.float32)
        distances = torch.stack([torch.linalg.vector_norm(row - mean, dtype=dtype) for row in self.rows])
        return float(distances.cpu().double().square().sum())

    def _parts(self, rows: Tensor) -> list[Tensor]:
        """What belongs to each tensor in one row or in several, its elements in the last dimension."""
        return [
            rows.narrow(-1, int(offset), int(size)) for offset, size in zip(self._offsets, self._sizes, strict=True)
        ]


def _kept(shape: Sequence[int], strides: Sequence[int]) -> tuple[int, ...]:
    """These strides if the elements fill their memory, each place once; else those of a contiguous tensor."""
    filled = 1
    for stride, size in sorted(zip(strides, shape, strict=True)):
        if size > 1:
            if stride != filled:
                return torch.empty(shape, device="meta").stride()
            filled *= size
    return tuple(strides)


def _moved(what: str, copy: str) -> RuntimeError:
    return RuntimeError(
        f"{what} was moved to other memory, so that replicas could not be merged or saved any more: this is what "
        f"share_memory_() does, and whatever sends a tensor to another process, such as a DataLoader with "
        f'multiprocessing_context="spawn" whose dataset holds it. Share a copy instead, {copy}'
    )


def _without_offset(part: Tensor) -> Tensor:
    """The same memory, as a tensor that begins where its storage does.

    On the CPU, torch (2.14) adds coalesced sparse gradients at twice the offset that a tensor has in its storage.
    """
    alone: Tensor = from_dlpack(to_dlpack(part))
    return alone


def _zeros(rows: int, columns: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """Zeros; if there are many, and on the CPU, in huge pages, so that not every sparse access misses the TLB."""
    size = rows * columns * dtype.itemsize
    if device.type != "cpu" or size < _LARGE or not hasattr(mmap, "MADV_HUGEPAGE"):
        return torch.zeros(rows, columns, dtype=dtype, device=device)
    memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    with suppress(OSError):  # a kernel without huge pages
        memory.madvise(mmap.MADV_HUGEPAGE)
    return torch.frombuffer(memory, dtype=dtype).view(rows, columns)
