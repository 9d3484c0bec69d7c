"""The label or group of every sample, without loading the samples wherever the dataset stores them."""

import math
import pkgutil
import sys
import warnings
from collections.abc import Callable, Hashable, Mapping, Sequence, Sized
from typing import Any, Protocol, cast

import numpy as np
import numpy.typing as npt
import torch
from rich.console import Console
from rich.progress import track
from torch.utils.data import ConcatDataset, Subset, TensorDataset

from lightning_async.arguments import shown
from lightning_async.data.seeding import seeded
from lightning_async.described import describe

LabelArray = npt.NDArray[Any]

# The order matters to jsonargparse, which takes the first that fits: a number is a position, other text a name.
By = int | str | Callable[[Any], Hashable] | None
"""Where a sample's key is: a position, a name, a function of the sample, or None for the label."""

_LABEL_ATTRIBUTES = ("targets", "labels")
_LABEL_KEYS = ("label", "labels", "target", "targets", "y")


class _MapDataset(Protocol):
    def __len__(self) -> int: ...

    def __getitem__(self, index: Any, /) -> Any: ...


def read_labels(dataset: Sized, by: By = None) -> LabelArray:
    """Return one label (or group) per sample.

    Stored values are used where they exist: an attribute ``targets`` or ``labels`` with one entry per sample, the
    second tensor of a ``TensorDataset``, a column of a table-like dataset (``column_names``), all of them through
    ``Subset`` and ``ConcatDataset``. Stored values are taken as they are, before any ``target_transform``. Otherwise
    every sample is read once, with a warning; the global random states are put back afterwards, so that a dataset that
    augments does not change the run.

    Args:
        dataset: map-style dataset.
        by: ``None`` for the label; a name (attribute of the dataset, column, or key of the sample); a position (tensor
            of a ``TensorDataset``, or element of the sample); or a function of the sample, in a configuration written
            as ``package.module:function``.

    Returns:
        Array of shape (len(dataset),): numbers, strings, or objects that can be hashed.

    Raises:
        TypeError: if ``by`` is of the wrong kind, nothing of that name or position exists, or the values cannot be
            hashed.
        ValueError: if the values are not one discrete value per sample, or a function's name does not lead to one.

    Example:
        >>> data = TensorDataset(torch.zeros(3, 2), torch.tensor([5, 7, 5]))
        >>> read_labels(data).tolist(), read_labels(data, by=lambda sample: int(sample[1]) > 6).tolist()
        ([5, 7, 5], [False, True, False])
    """
    by = resolve_by(by)
    stored = None if callable(by) else _stored_keys(dataset, by)
    return _read_samples(cast(_MapDataset, dataset), by) if stored is None else stored


def resolve_by(by: By, *, none: bool = True) -> By:
    """Import the function that a text ``package.module:function`` names, and return everything else as it is.

    Args:
        by: what was given.
        none: whether it may be None, for the label.

    Raises:
        TypeError: if it is no position, name or function.
        ValueError: if the function cannot be imported or is not one.
    """
    position = isinstance(by, int | np.integer) and not isinstance(by, bool)
    if not (position or isinstance(by, str) or callable(by) or (none and by is None)):
        label = ", or None for the label" if none else ""
        raise TypeError(
            "by must be a position (an integer), a name, a function of the sample or its name as "
            f"package.module:function{label}, got {shown(by)}"
        )
    if not isinstance(by, str) or ":" not in by:
        return by
    try:
        function = pkgutil.resolve_name(by)
    except (ImportError, AttributeError, ValueError) as error:
        raise ValueError(f"by={by!r} should name a function as package.module:function: {error}") from error
    if not callable(function):
        raise ValueError(f"by={by!r} is a {type(function).__name__}, not a function of a sample")
    return cast(By, function)


def encode_labels(labels: LabelArray) -> tuple[npt.NDArray[np.int64], list[Hashable]]:
    """Return the code of every sample, and the value behind every code 0, 1, ...

    Codes follow the order of the values; of the first appearance where the values have no order (objects).

    Example:
        >>> encode_labels(np.array(["b", "a", "b"]))
        (array([1, 0, 1]), ['a', 'b'])
    """
    if labels.dtype == object:
        code_of: dict[Hashable, int] = {}
        codes = [code_of.setdefault(label, len(code_of)) for label in labels]
        return np.array(codes, dtype=np.int64), list(code_of)
    values, inverse = np.unique(labels, return_inverse=True)
    return inverse.astype(np.int64).reshape(-1), values.tolist()


def _stored_keys(dataset: Sized, by: str | int | None) -> LabelArray | None:
    size = len(dataset)
    for name in _LABEL_ATTRIBUTES if by is None else (by,):
        values = getattr(dataset, name, None) if isinstance(name, str) else None
        # A list of class names is often called `labels` too: only one entry per sample makes it the samples' labels.
        if isinstance(values, Sized) and not isinstance(values, str | Mapping) and len(values) == size:
            return _as_keys(cast(Sequence[Any], values), f"{type(dataset).__name__}.{name}")
    if isinstance(dataset, Subset):
        whole = _stored_keys(dataset.dataset, by)  # type: ignore[arg-type]  # a Subset of something without length cannot be indexed
        return None if whole is None else whole[np.asarray(dataset.indices, dtype=np.int64)]
    if isinstance(dataset, ConcatDataset):
        parts = [_stored_keys(cast(Sized, part), by) for part in dataset.datasets]
        found = [part for part in parts if part is not None]
        return np.concatenate(found) if len(found) == len(parts) else None
    if isinstance(dataset, TensorDataset) and not isinstance(by, str):
        position = 1 if by is None else by
        if -len(dataset.tensors) <= position < len(dataset.tensors):
            return _as_keys(dataset.tensors[position], f"TensorDataset.tensors[{position}]")
        return None
    columns = getattr(dataset, "column_names", None)
    if isinstance(columns, Sequence):
        for name in _LABEL_KEYS if by is None else (by,):
            if name in columns:
                column = cast(_MapDataset, dataset)[name]
                return _as_keys(column, f"column {name!r} of {type(dataset).__name__}")
    return None


def _read_samples(dataset: _MapDataset, by: By) -> LabelArray:
    what = "labels" if by is None else f"values of by={describe(by)}"
    where = f"{what} of {type(dataset).__name__}"
    size = len(dataset)
    console = Console(file=sys.stderr)
    quiet = not console.is_terminal
    keys = []
    with seeded(0):  # a partition is a pure function even if the dataset's samples are random
        for index in track(range(size), f"Reading {what}", console=console, disable=quiet, transient=True):
            sample = dataset[index]
            keys.append(by(sample) if callable(by) else _key_in_sample(sample, by, where))
            if index == 0:
                remedy = "`targets`" if by is None else "an attribute"
                warnings.warn(
                    f"The {where} are not stored: reading all {size} samples once. "
                    f"Give the dataset {remedy} with one entry per sample to avoid this",
                    stacklevel=4,
                )
    return _as_keys(keys, where)


def _key_in_sample(sample: Any, by: str | int | None, where: str) -> Hashable:
    try:
        if isinstance(sample, Mapping):
            key = next(name for name in _LABEL_KEYS if name in sample) if by is None else by
            return cast(Hashable, sample[key])
        if isinstance(by, str):
            return cast(Hashable, getattr(sample, by))
        if isinstance(sample, Sequence) and not isinstance(sample, str):
            return cast(Hashable, sample[1 if by is None else by])
    except (LookupError, AttributeError, StopIteration):
        pass
    raise TypeError(
        f"The {where} cannot be found: no attribute or column with one entry per sample, and not in a sample, which "
        f"is a {type(sample).__name__}. Pass by= a name, a position or a function of the sample"
    )


def _as_keys(values: Sequence[Any] | torch.Tensor | LabelArray, where: str) -> LabelArray:
    if isinstance(values, torch.Tensor):
        array = values.detach().cpu().numpy()
    elif isinstance(values, np.ndarray):
        array = values
    else:
        array = _array_of([_as_scalar(value, where) for value in values])
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        raise ValueError(
            f"{where} has shape {array.shape}: one value per sample is needed. Pass by= a function of the sample that "
            "returns one, for instance the class of a one-hot row"
        )
    if array.dtype.kind == "f" and not np.all(array == np.rint(array)):
        raise ValueError(
            f"{where} holds continuous values ({array[array != np.rint(array)][0]}, ...): a partition needs "
            "classes or groups. Pass by= a function of the sample that returns a bin"
        )
    return array


def _as_scalar(value: Any, where: str) -> Hashable:
    if isinstance(value, torch.Tensor | np.ndarray | np.generic):
        if math.prod(value.shape) != 1:
            raise ValueError(
                f"{where} holds an array of shape {tuple(value.shape)}: one value per sample is needed. "
                "Pass by= a function of the sample that returns one"
            )
        return cast(Hashable, value.item())
    try:
        hash(value)
    except TypeError as error:
        raise TypeError(
            f"{where} holds a {type(value).__name__}, which cannot be hashed. "
            "Pass by= a function of the sample that returns a number, a string or a tuple"
        ) from error
    return cast(Hashable, value)


def _array_of(keys: list[Hashable]) -> LabelArray:
    for kind in (bool, int, float, str):
        if all(type(key) is kind for key in keys):
            return np.array(keys, dtype=kind)
    array = np.empty(len(keys), dtype=object)
    array[:] = keys
    return array
