"""n replicas of a model and its optimizer, of which one at a time is in place."""

from __future__ import annotations

import copy
import warnings
from collections import defaultdict
from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from lightning_async.methods.buffer_replicas import BufferReplicas, differing
from lightning_async.methods.flat import FlatReplicas
from lightning_async.methods.parameters import check_distinct, check_floating

_State: TypeAlias = "defaultdict[Tensor, Any]"


class Replicas:
    """Parameters, buffers and optimizer states of n replicas, swapped in by pointer.

    What stands in the parameters at the start is where all replicas begin, and how it lies in memory is how all of them
    do. From then on the parameters are views: of one replica, or of the average model, which is made when it is asked
    for and given up when a replica enters. What is written into a replica belongs to it; entries that are written while
    no replica is in place, before the first has entered or into the average, all have when the next one enters.

    Args:
        parameters: the trainable parameters.
        optimizer: optimises them; of its state there is one for each replica, its hyper-parameters are shared.
        num_replicas: number of replicas n.
        module: owner of the buffers, if there are any.

    Raises:
        ValueError: if the parameters differ in dtype or device, are complex, integers or listed twice, or there are
            none; if a buffer cannot be averaged.
    """

    def __init__(
        self, parameters: Sequence[Tensor], optimizer: Optimizer, num_replicas: int, module: nn.Module | None = None
    ) -> None:
        self.parameters = list(parameters)
        check_floating(self.parameters)
        check_distinct(self.parameters)
        self.flat = FlatReplicas([p.data for p in self.parameters], num_replicas)
        self.buffers = BufferReplicas(module, num_replicas)
        self.in_place: int | Literal["average"] | None = None
        """Which replica the parameters hold; None before the first has entered."""
        self.last = 0
        """The replica that has entered last, whose state the optimizer has."""
        self.attach(optimizer)

    def attach(self, optimizer: Optimizer) -> None:
        """Use an optimizer, whose state every replica begins with."""
        self.optimizer = optimizer
        self.num_optimized = sum(len(group["params"]) for group in optimizer.param_groups)
        """Number of tensors that the optimizer steps."""
        own = set(map(id, self.parameters))
        self.shared = [p for group in optimizer.param_groups for p in group["params"] if id(p) not in own]
        """Those of them of which there are no replicas; they must not have gradients."""
        self._states = [optimizer.state, *(_copied(optimizer.state) for _ in self.flat.rows[1:])]

    def enter(self, replica: int) -> None:
        """Let parameters, buffers and optimizer hold one replica; nothing is copied."""
        self._take_over()
        for p, view in zip(self.parameters, self.flat.views(replica)):  # noqa: B905  equal lengths, hot path
            p.data = view
        self.buffers.enter(replica)
        self.optimizer.state = self._states[replica]
        self.in_place = self.last = replica

    def keep(self) -> None:
        """A step has been made with the replica that is in place: keep what is not kept by pointer."""
        self._take_over()
        self.buffers.keep(self.last)
        self._states[self.last] = self.optimizer.state

    def _take_over(self) -> None:
        """Keep what has been written: into the replica that is in place by `p.data = ...`, or while none was.

        Raises:
            RuntimeError: if a parameter was made to hold a tensor of another shape or dtype.
        """
        if not isinstance(self.in_place, int):
            self._write_all(self._written())
            return
        for index, (p, view) in enumerate(zip(self.parameters, self.flat.views(self.in_place))):  # noqa: B905  as in enter
            if p.data_ptr() != view.data_ptr():
                self._check_kind(index)
                view.copy_(p.data)
                p.data = view

    def _written(self) -> dict[int, Tensor]:
        """Which entries of which parameters are not what they were given any more, the average or the start."""
        given = self.flat.split(self.flat.mean() if self.in_place == "average" else self.flat.rows[0])
        written = {}
        for index, (p, before) in enumerate(zip(self.parameters, given, strict=True)):
            self._check_kind(index)
            changed = differing(p.data, before)
            if changed.any():
                written[index] = changed
        return written

    def _write_all(self, written: dict[int, Tensor]) -> None:
        """Let all replicas have these entries."""
        for index, changed in written.items():
            for replica in range(len(self.flat.rows)):
                view = self.flat.views(replica)[index]
                view.copy_(torch.where(changed, self.parameters[index].data, view))

    def _saved_parameters(self) -> Tensor:
        """All replicas, with what has been written. Who has written it into the average may take it back after this."""
        if isinstance(self.in_place, int):
            self._take_over()
            return self.flat.compact()
        if any(p.dtype != self.flat.rows.dtype for p in self.parameters):  # for the time of a validation
            return self.flat.compact()
        written = self._written()
        if not written:
            return self.flat.compact()
        before = self.flat.rows.clone()
        self._write_all(written)
        saved = self.flat.compact().clone()
        self.flat.rows.copy_(before)
        return saved

    def _check_kind(self, index: int) -> None:
        now, kept = self.parameters[index].data, self.flat.views(0)[index]
        if now.shape != kept.shape or now.dtype != kept.dtype or now.device != kept.device:
            raise RuntimeError(
                f"parameter {index} was of shape {tuple(kept.shape)} in {kept.dtype} on {kept.device}, and now holds a "
                f"tensor of shape {tuple(now.shape)} in {now.dtype} on {now.device}: replicas keep what they began "
                f"with. Change it before the fit, or in between two"
            )

    def enter_average(self) -> None:
        """Let parameters and buffers hold the average model; the optimizer's state stays as it is."""
        if self.in_place == "average":
            return
        self._take_over()
        self._give_average()

    def _give_average(self) -> None:
        for p, view in zip(self.parameters, self.flat.split(self.flat.mean()), strict=True):
            p.data = view
        self.buffers.enter_average()
        self.in_place = "average"

    def state_dict(self) -> dict[str, Any]:
        """All replicas.

        Raises:
            RuntimeError: if replicas were moved to other memory.
        """
        self.flat.check_in_place()
        parameters = self._saved_parameters()
        optimizers = []
        for state in self._states:
            self.optimizer.state = state
            optimizers.append(self.optimizer.state_dict()["state"])
        self.optimizer.state = self._states[self.last]
        return {
            "parameters": parameters,
            "strides": list(self.flat.strides),
            "buffers": self.buffers.state_dict(),
            "optimizers": optimizers,
            "last": self.last,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore what `state_dict` returned, whatever has been written into the parameters before.

        The order of the memory is restored as well: messages and methods have states in it, and how sums are rounded
        depends on it.

        Raises:
            ValueError: if it is of another number of replicas, or of other parameters or buffers.
        """
        kept, shape = state["parameters"], (len(self.flat.rows), self.flat.num_coordinates)
        if kept.shape != shape:
            raise ValueError(f"parameters of replicas are of shape {tuple(kept.shape)} instead of {shape}")
        if len(state["optimizers"]) != len(self.flat.rows) or not 0 <= state["last"] < len(self.flat.rows):
            raise ValueError(
                f"there are {len(state['optimizers'])} optimizer states, and replica {state['last']} was the last, of "
                f"{len(self.flat.rows)}"
            )
        before = self.flat.strides
        # Before it was saved, it was always that of contiguous tensors.
        strides = state.get("strides", [torch.empty(p.shape, device="meta").stride() for p in self.parameters])
        self.flat.load(state["parameters"], strides)
        if self.flat.strides != before:
            warnings.warn(
                "the parameters lay in memory in another order when the state was saved, perhaps before a "
                "module.to(memory_format=...): the run continues, bit for bit, in the order that was saved",
                stacklevel=2,
            )
        if isinstance(self.in_place, int):
            for p, view in zip(self.parameters, self.flat.views(self.in_place), strict=True):
                p.data = view
        self.buffers.load_state_dict(state["buffers"])
        groups = self.optimizer.state_dict()["param_groups"]
        for replica, optimizer_state in enumerate(state["optimizers"]):
            # The optimizer's own loading moves tensors to their device, and knows which ones stay on the CPU.
            self.optimizer.load_state_dict({"state": copy.deepcopy(optimizer_state), "param_groups": groups})
            self._states[replica] = self.optimizer.state
        self.last = state["last"]
        self.optimizer.state = self._states[self.last]
        if not isinstance(self.in_place, int):
            self._give_average()


def _copied(state: _State) -> _State:
    """The state of another optimizer of the same parameters."""
    values = {p: {key: copy.deepcopy(value) for key, value in of_p.items()} for p, of_p in state.items()}
    return defaultdict(dict, values)
