"""The buffers of a module, such as BatchNorm's statistics, once for every replica."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn


class _Buffer(NamedTuple):
    owner: nn.Module
    name: str
    values: Tensor  # (n, *shape)
    rows: tuple[Tensor, ...]  # views of it

    @property
    def current(self) -> Tensor:
        """What the module has now."""
        tensor = self.owner._buffers[self.name]
        if tensor is None or tensor.shape != self.rows[0].shape:
            raise RuntimeError(
                f"buffer {self.name!r} of {type(self.owner).__name__} changed from shape {tuple(self.rows[0].shape)} "
                f"to {None if tensor is None else tuple(tensor.shape)} during training, but replicas need buffers of "
                f"a fixed shape: keep it in a plain attribute, or make it as large as it can become"
            )
        return tensor


class BufferReplicas:
    """n copies of all buffers of a module, swapped in by pointer.

    Args:
        module: its owner, or None if there are no buffers.
        num_replicas: number of copies n.

    Raises:
        ValueError: if torch has neither a mean nor a maximum of buffers like one of them.
    """

    def __init__(self, module: nn.Module | None, num_replicas: int) -> None:
        self._buffers: list[_Buffer] = []
        self._average: list[Tensor] = []  # what the module has, or has been given, while it has no replica's
        seen: set[int] = set()
        for path, owner in module.named_modules() if module is not None else ():
            for name, tensor in owner._buffers.items():
                if tensor is not None and id(tensor) not in seen:
                    seen.add(id(tensor))
                    _check_average(f"{path}.{name}" if path else name, tensor.data)
                    values = tensor.data.unsqueeze(0).repeat(num_replicas, *[1] * tensor.ndim)
                    self._buffers.append(_Buffer(owner, name, values, values.unbind()))
                    self._average.append(tensor.data.clone())

    def enter(self, replica: int) -> None:
        """Let the module have the buffers of one replica."""
        self.take_over_average()
        self._average = []
        for buffer in self._buffers:
            buffer.current.data = buffer.rows[replica]

    def keep(self, replica: int) -> None:
        """Take over buffers that the module has replaced by new tensors, in place of changing them.

        Raises:
            RuntimeError: if one has another shape than before.
        """
        for buffer in self._buffers:
            current, row = buffer.current, buffer.rows[replica]
            if current.data_ptr() != row.data_ptr():
                row.copy_(current)
                current.data = row

    def enter_average(self) -> None:
        """Let the module have the average of all replicas' buffers."""
        self._average = [_average(buffer.values) for buffer in self._buffers]
        for buffer, average in zip(self._buffers, self._average, strict=True):
            buffer.current.data = average.clone()

    def take_over_average(self) -> None:
        """Let every replica have what was written before the first entered, or into the average, as by validation."""
        for buffer, average in zip(self._buffers, self._average):  # noqa: B905  empty while the module has a replica
            current = buffer.current.to(average.device)
            if not same(current, average):
                buffer.values.copy_(current.expand_as(buffer.values))
                average.copy_(current)

    def merge(self) -> None:
        """Let every replica have the average."""
        for buffer in self._buffers:
            buffer.values.copy_(_average(buffer.values).expand_as(buffer.values))

    def state_dict(self) -> list[Tensor]:
        """The values of all replicas, buffer by buffer, with what has been written into the average."""
        values = [buffer.values for buffer in self._buffers]
        for i, (buffer, average) in enumerate(zip(self._buffers, self._average)):  # noqa: B905  as in take_over_average
            current = buffer.current.to(average.device)
            if not same(current, average):
                values[i] = current.expand_as(buffer.values).clone()
        return values

    def load_state_dict(self, state: Sequence[Tensor]) -> None:
        """Restore what `state_dict` returned.

        Raises:
            ValueError: if it is of another number of replicas, or of other buffers.
        """
        for buffer, values in zip(self._buffers, state, strict=True):
            if values.shape != buffer.values.shape:
                raise ValueError(
                    f"buffer {buffer.name!r} of replicas is of shape {tuple(values.shape)} instead of "
                    f"{tuple(buffer.values.shape)}"
                )
            buffer.values.copy_(values)


def _check_average(name: str, tensor: Tensor) -> None:
    """Refuse a buffer that cannot be averaged, found out on a single entry of it."""
    try:
        _average(tensor.reshape(1, -1)[:, :1].repeat(2, 1))
    except (NotImplementedError, RuntimeError) as error:
        layout = "" if tensor.layout == torch.strided else f" and {tensor.layout}"
        raise ValueError(
            f"every replica has buffers of its own, and merges take their mean or maximum, which torch does not have "
            f"for buffer {name!r} of {tensor.dtype}{layout}: make it a dense tensor of torch.float32 or torch.int64, "
            f"or, if it never changes, keep it in a plain attribute, which all replicas share"
        ) from error


def same(a: Tensor, b: Tensor) -> bool:
    """Whether all entries are equal; NaN is what NaN was."""
    return not differing(a, b).any()


def differing(a: Tensor, b: Tensor) -> Tensor:
    """Which entries are not equal."""
    return (a != b) & ~((a != a) & (b != b))


def _average(values: Tensor) -> Tensor:
    """The mean of numbers, the maximum of counters and flags. Constants stay what they are, to the last bit."""
    if not (values.is_floating_point() or values.is_complex()):
        return values.amax(0)
    return torch.where((values == values[0]).all(0), values[0], values.mean(0))
