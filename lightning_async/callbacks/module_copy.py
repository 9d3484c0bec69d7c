"""A copy of a module that can be run beside it."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from types import MethodType
from typing import Any

from lightning.fabric.utilities.exceptions import MisconfigurationException
from lightning.pytorch import LightningModule
from torch import Tensor

_WRAPPED_BY_COMPILE = ("forward", "training_step", "validation_step", "test_step", "predict_step")


def copied(module: LightningModule) -> LightningModule:
    """A copy that shares no tensor with the module, in the same mode, with the same buffers.

    Raises:
        MisconfigurationException: if an attribute of the module cannot be copied.
    """
    memo: dict[int, Any] = {}
    for part in module.modules():
        for value in list(vars(part).values()):
            _detach_computed(value, memo)
    try:
        twin = copy.deepcopy(module, memo)
    except Exception as error:
        raise MisconfigurationException(
            f"GradientNoiseMonitor measures on a copy of {type(module).__name__}, which cannot be copied: {error}. "
            f"Give the attribute that cannot be copied a __deepcopy__, or remove the callback."
        ) from error
    for name in _WRAPPED_BY_COMPILE:
        # What torch.compile has put on the instance calls the original.
        if name in twin.__dict__ and not isinstance(twin.__dict__[name], MethodType):
            del twin.__dict__[name]
    return twin


def _detach_computed(value: object, memo: dict[int, Any], depth: int = 0) -> None:
    """Have tensors that were computed, such as losses kept in a list, copied without their graph."""
    if isinstance(value, Tensor):
        if value.grad_fn is not None:
            memo[id(value)] = value.detach().clone()
    elif depth < 4 and isinstance(value, Mapping):
        for inner in list(value.values()):
            _detach_computed(inner, memo, depth + 1)
    elif depth < 4 and isinstance(value, (list, tuple, set)):
        for inner in list(value):
            _detach_computed(inner, memo, depth + 1)
