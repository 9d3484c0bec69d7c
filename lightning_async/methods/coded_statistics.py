"""What the server of gradient coding learns about gradients from the messages."""

from __future__ import annotations

from typing import Any

import numpy as np

from lightning_async.coding import (
    CorrelationEstimator,
    CrestFactorAverage,
    FixedDecoder,
    QuantizerName,
    effective_code,
    gram_of_messages,
    relative_variance,
)
from lightning_async.methods.code_design import CodePlan
from lightning_async.methods.coded_messages import Messages


class Statistics:
    """Running averages of what messages say about gradients: kappa of each worker and rho.

    They are tensor-side state: the schedule does not depend on them.

    Args:
        quantizer: name of the quantiser.
        kappa: kappa before a worker has reported.
        rho: correlation of two partition gradients, if it is not to be estimated.
    """

    def __init__(self, quantizer: QuantizerName, kappa: float, rho: float | None) -> None:
        self._quantizer = quantizer
        self._initial = kappa
        self._rho = rho
        self._crest: CrestFactorAverage | None = None
        self._estimator: CorrelationEstimator | None = None
        self._partitions = 0

    @property
    def kappa(self) -> float:
        """Mean over the workers that have reported."""
        return self._crest.common if self._crest is not None else self._initial

    @property
    def rho(self) -> float:
        """Latest estimate of the correlation of two partition gradients, or what was given."""
        if self._rho is not None:
            return self._rho
        return self._estimator.rho if self._estimator is not None else 0.0

    def begin(self, plan: CodePlan) -> None:
        """A round begins."""
        if self._crest is None:
            self._start(*plan.code.assignment.shape, estimate=isinstance(plan.code.decoder, FixedDecoder))

    def _start(self, workers: int, partitions: int, *, estimate: bool) -> None:
        self._partitions = partitions
        self._crest = CrestFactorAverage(workers, initial=self._initial or 1.0)
        if self._rho is None and estimate:
            self._estimator = CorrelationEstimator(np.zeros((workers, partitions)), np.zeros(workers))

    def learn(self, plan: CodePlan, messages: Messages) -> None:
        """Take in the messages of a round, for the rounds to come."""
        assert self._crest is not None
        for worker, kappa in messages.kappa.items():
            self._crest.update(worker, kappa)
        if self._estimator is not None and messages.vectors and isinstance(plan.code.decoder, FixedDecoder):
            scale = (1.0 - plan.p) * plan.code.decoder.fixed
            q = relative_variance(plan.bits, self._crest.kappa, self._quantizer)
            self._estimator.set_code(effective_code(plan.code.assignment, plan.code.decoder.fixed, plan.p), q)
            workers, products = gram_of_messages(messages.vectors)
            self._estimator.update(workers, products * np.outer(scale[workers], scale[workers]))

    def state_dict(self) -> dict[str, Any]:
        """The averages, for a checkpoint; empty if nothing was learnt yet."""
        if self._crest is None:
            return {}
        correlation = {} if self._estimator is None else self._estimator.state_dict()
        return {"partitions": self._partitions, "kappa": self._crest.state_dict(), "correlation": correlation}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the averages, before the first round."""
        if not state:
            return
        self._start(len(state["kappa"]["kappa"]), state["partitions"], estimate=bool(state["correlation"]))
        assert self._crest is not None
        self._crest.load_state_dict(state["kappa"])
        if self._estimator is not None:
            self._estimator.load_state_dict(state["correlation"])
