"""What a replica method must have and return, refused with the remedy: anybody may write one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from torch import Tensor

from lightning_async.methods.masks import Indices

if TYPE_CHECKING:
    from lightning_async.methods.replica_method import ReplicaMethod


def check_complete(method: ReplicaMethod) -> None:
    """Refuse a method whose constructor has left something out.

    Raises:
        TypeError: if there is no window or no rule, or an argument is not kept in an attribute of its name.
    """
    name = type(method).__name__
    if not hasattr(method, "compute_window"):
        raise TypeError(
            f"{name} has no compute_window: call super().__init__(compute_window) in {name}.__init__, with the logical "
            f"time for local steps before a message"
        )
    if not callable(getattr(method, "rule", None)):
        raise TypeError(
            f"{name} has no rule to merge replicas, got rule={getattr(method, 'rule', None)!r}: set self.rule in "
            f"{name}.__init__ to a MergeRule, such as Corrected(), or Mixing(0.0), by which replicas become their mean"
        )
    repr(method)  # by which a resumed run is compared: what cannot be shown could not be saved


def check_resumable(method: ReplicaMethod) -> None:
    """Refuse a method that makes a state and does not save it.

    Raises:
        TypeError: with what to define.
    """
    name = type(method).__name__
    if method.forgets_its_state:
        raise TypeError(
            f"{name}.begin makes a state, which a resumed run could not go on with: define {name}.state_dict, which "
            f"returns what outlives a round ({{}} if nothing does), and {name}.load_state_dict, which takes it back"
        )


def checked_size(method: ReplicaMethod, round: int, num_coordinates: int, seed: int) -> int:
    """How many coordinates the method exchanges.

    Raises:
        TypeError: if it says something that is no integer.
        ValueError: if it is not from 0 to d.
    """
    size = method.size(round, num_coordinates, seed)
    if isinstance(size, (int, np.integer)) and 0 <= size <= num_coordinates:
        return int(size)
    raise (ValueError if isinstance(size, (int, np.integer)) else TypeError)(
        f"{type(method).__name__}.size({round}, {num_coordinates}, {seed}) must return how many coordinates are "
        f"exchanged, an integer from 0 to {num_coordinates}, got {size!r}"
    )


def checked_indices(method: ReplicaMethod, round: int, num_coordinates: int, seed: int, size: int) -> Indices | None:
    """Which coordinates the method exchanges.

    Raises:
        TypeError: if it returns something else than an array of integers, or None.
        ValueError: if they are not `size` ascending ones from 0 to d - 1.
    """
    indices = method.indices(round, num_coordinates, seed)
    asked = f"{type(method).__name__}.indices({round}, {num_coordinates}, {seed})"
    if indices is None:
        found = num_coordinates
    elif not isinstance(indices, np.ndarray) or indices.ndim != 1 or not np.issubdtype(indices.dtype, np.integer):
        got = (
            f"an array of shape {indices.shape} and dtype {indices.dtype}"
            if isinstance(indices, np.ndarray)
            else f"a {type(indices).__name__}"
        )
        raise TypeError(
            f"{asked} must return a one-dimensional numpy array of integers, or None for all coordinates, got {got}: "
            f"np.asarray makes an array of a list, np.flatnonzero one of a mask of booleans"
        )
    else:
        found = len(indices)
    if found != size:
        raise ValueError(
            f"{asked} returned {found} coordinates, but {type(method).__name__}.size says that there are {size}: the "
            f"two must agree, as the time that the message takes follows from the size"
        )
    if indices is None:
        return None
    if not (indices[1:] > indices[:-1]).all():
        raise ValueError(f"{asked} must return ascending coordinates, each of them once: use np.unique, which sorts")
    if found and not 0 <= indices[0] <= indices[-1] < num_coordinates:
        raise ValueError(
            f"{asked} must return coordinates from 0 to {num_coordinates - 1}, got {indices[0]} to {indices[-1]}"
        )
    return np.require(indices, np.int64, ["C", "W"])  # what torch shares memory with


def outer_mean(method: ReplicaMethod, mean: Tensor, where: Tensor | None) -> Tensor:
    """What the method makes of the mean.

    Raises:
        TypeError: if it is no tensor, or of a smaller dtype than the mean.
        ValueError: if it has another shape or device.
    """
    made = method.outer(mean, where)
    must = f"{type(method).__name__}.outer must return what replicas take in place of the mean, a tensor like it"
    if not isinstance(made, Tensor):
        raise TypeError(f"{must}, got {made!r}; if it has changed the mean in place, it ends with: return mean")
    if made.shape != mean.shape or made.device != mean.device:
        raise ValueError(
            f"{must}, of shape {tuple(mean.shape)} on {mean.device}, got shape {tuple(made.shape)} on {made.device}"
        )
    if not made.is_floating_point() or made.element_size() < mean.element_size():
        raise TypeError(f"{must}, in {mean.dtype} at least, got {made.dtype}")
    return made
