"""The server's side of a round of gradient coding: messages in, one or two estimates of the gradient out."""

from __future__ import annotations

import math
from collections import OrderedDict
from typing import Any

import torch
from torch import Tensor

from lightning_async.coding import Decoder, Quantizer, combine, make_decoder, relative_variance
from lightning_async.coding.registry import DecoderName
from lightning_async.methods.base import Direction, Gradient
from lightning_async.methods.code_design import CodePlan
from lightning_async.methods.coded_messages import Messages, PartitionGradients
from lightning_async.methods.coded_statistics import Statistics
from lightning_async.methods.coded_step import CodedStep

KNOWING_CORRELATION: tuple[DecoderName, ...] = ("set_aware", "lmmse")
"""Decoders that make use of rho."""

_DECODERS_KEPT = 16


class Receiver:
    """Decodes rounds, one after the other, and keeps what a run must not forget.

    Args:
        quantizer: what workers compress with.
        decoders: names of the decoders, one for each estimate.
        kappa: squared crest factor that is assumed before a worker has reported.
        rho: correlation of two partition gradients; estimated from the messages if None.
        strength: lambda of the regularized decoder.
    """

    def __init__(
        self,
        quantizer: Quantizer,
        decoders: tuple[DecoderName, ...],
        *,
        kappa: float,
        rho: float | None,
        strength: float,
    ) -> None:
        self.bits_sent = 0
        """Bits of all messages so far."""
        self._quantizer = quantizer
        self._names = decoders
        self._knows_correlation = any(name in KNOWING_CORRELATION for name in decoders)
        self._statistics = Statistics(quantizer.name, kappa, rho if self._knows_correlation else 0.0)
        self._strength = strength
        self._made: OrderedDict[tuple[int, str, float, float], tuple[CodePlan, Decoder]] = OrderedDict()
        self._last_index = -1
        self._last: dict[str, float] = {}

    def receive(self, step: CodedStep, gradients: list[Gradient], *, measure_error: bool) -> Direction | None:
        """The estimates of one round over the number of partitions; None if no message arrived.

        Args:
            step: the round.
            gradients: the gradients of its jobs.
            measure_error: compare with the full gradient, if the gradients of all partitions are there.
        """
        rows = PartitionGradients(step.partitions, gradients)
        messages = Messages(step, rows, self._quantizer)
        self.bits_sent += messages.bits
        self._last_index = step.index
        self._last = {"arrived": float(len(messages.vectors)), "bits/step": float(messages.bits)}
        if not messages.vectors:
            return None
        self._statistics.begin(step.plan)
        # What this round says of rho is left for later ones: weights must not depend on what they weigh.
        arrived = messages.arrived(len(step.plan.p))
        weights = [self._decoder(name, step.plan).weights(arrived) for name in self._names]
        estimates = [combine(messages.vectors, weight) for weight in weights]
        self._statistics.learn(step.plan, messages)
        partitions = step.plan.code.assignment.shape[1]
        if measure_error and len(gradients) == partitions:
            self._last |= _relative_error(estimates[0], rows, partitions)
        first, *second = [rows.as_gradient(estimate.div_(partitions)) for estimate in estimates]
        return (first, second[0]) if second else first

    def metrics(self, step: CodedStep) -> dict[str, float]:
        """What the last step sent, and what is known."""
        last = self._last if self._last_index == step.index else {"arrived": 0.0, "bits/step": 0.0}
        values = {**last, "bits_sent": float(self.bits_sent), "kappa": self._statistics.kappa}
        if self._knows_correlation:
            values["rho"] = self._statistics.rho
        return values

    def state_dict(self) -> dict[str, Any]:
        """Bits sent so far, and the averages of kappa and rho."""
        return {"bits_sent": self.bits_sent, "statistics": self._statistics.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore what `state_dict` returned, before the first round."""
        self.bits_sent = state["bits_sent"]
        self._statistics.load_state_dict(state["statistics"])

    def _decoder(self, name: DecoderName, plan: CodePlan) -> Decoder:
        """The decoder of a plan for what is known of the gradients.

        Making one can cost far more than a step, so kappa is rounded to steps of a quarter and rho to 1/50. Decoders
        that are unbiased are so for every kappa and rho.
        """
        kappa, rho = self._statistics.kappa, self._statistics.rho
        kappa = 1.25 ** round(math.log(kappa) / math.log(1.25)) if kappa > 0.0 else 0.0
        rho = min(1.0, max(-1.0 / max(plan.code.assignment.shape[1] - 1, 1), round(50.0 * rho) / 50.0))
        key = id(plan), name, kappa, rho
        if key not in self._made:
            q = relative_variance(plan.bits, kappa, self._quantizer.name)
            # The plan is kept with the decoder, so that its id is nobody else's.
            self._made[key] = plan, make_decoder(name, plan.code, plan.p, q, rho=rho, strength=self._strength)
            if len(self._made) > _DECODERS_KEPT:
                self._made.popitem(last=False)
        self._made.move_to_end(key)
        return self._made[key][1]


def _relative_error(estimate: Tensor, rows: PartitionGradients, partitions: int) -> dict[str, float]:
    """||estimate - g||^2 / ||g||^2; nothing if g, the sum over all partitions, is zero."""
    full = rows.combine(dict.fromkeys(range(partitions), 1.0))
    assert full is not None
    square = torch.linalg.vector_norm(full.double()).item() ** 2
    if square == 0.0:
        return {}
    return {"relative_error": torch.linalg.vector_norm((estimate - full).double()).item() ** 2 / square}
