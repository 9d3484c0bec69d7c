"""`simulate` with gradients that are not finite."""

from __future__ import annotations

import math
from itertools import islice

import pytest
import torch
from torch import Tensor

from lightning_async import simulate
from lightning_async.methods import (
    ASGD,
    MinibatchSGD,
)
from lightning_async.methods.server import NonFiniteGradientError
from lightning_async.simulation import Job, SimulatedCluster, SqrtTimes, TwoSpeedTimes, UniformTimes
from tests.log_cosh import EVERY_OPTIMIZER, OPTIMIZERS, gradient, start


class TestNonFiniteGradients:
    def test_the_schedule_goes_on_as_if_nothing_had_happened(self) -> None:
        ps, cluster = start(), SimulatedCluster(TwoSpeedTimes(4, 3.0))

        def function(job: Job) -> list[Tensor]:
            return [g * math.nan if job.version in (2, 3, 7) else g for g in gradient(ps, job)]

        run = simulate(ASGD(), cluster, ps, torch.optim.SGD(ps, lr=0.1), function, max_steps=20)
        assert list(run) == list(islice(ASGD().steps(cluster), 20))
        assert all(bool(p.isfinite().all()) for p in ps)
        assert run.server.nonfinite > 0

    @EVERY_OPTIMIZER
    def test_the_optimizer_is_not_called_if_nothing_remains(self, optimizer: str) -> None:
        """Parameters and everything the optimizer remembers stay as they are."""
        ps = start()
        opt = OPTIMIZERS[optimizer](ps)
        spoil = False

        def function(job: Job) -> list[Tensor]:
            return [g * math.nan if spoil else g for g in gradient(ps, job)]

        run = simulate(ASGD(), SimulatedCluster(SqrtTimes(4)), ps, opt, function)
        for _ in range(5):
            next(run)
        before = [[p.clone() for p in ps], *[_clone(opt.state[p]) for p in ps]]
        spoil = True
        assert next(run).index == 5
        assert next(run).index == 6
        after = [ps, *[opt.state[p] for p in ps]]
        assert all(_same(a, b) for a, b in zip(before, after, strict=True))
        assert run.server.nonfinite == 2
        spoil = False
        next(run)
        assert not torch.equal(before[0][0], ps[0])

    def test_a_mean_is_over_the_rest(self) -> None:
        x = torch.zeros(2)
        values = iter([1.0, math.nan, 5.0, math.inf])
        sgd = torch.optim.SGD([x], lr=1.0)
        run = simulate(
            MinibatchSGD(), SimulatedCluster(UniformTimes(4)), [x], sgd, lambda job: [torch.full((2,), next(values))], 1
        )
        (step,) = run
        assert len(step.jobs) == 4
        assert torch.equal(x, torch.tensor([-3.0, -3.0]))
        assert run.server.nonfinite == 2

    def test_raise_stops_before_the_parameters_change(self) -> None:
        x = torch.ones(1)
        sgd = torch.optim.SGD([x], lr=1.0)
        run = simulate(ASGD(), SimulatedCluster(UniformTimes(2)), [x], sgd, lambda job: [x / 0.0], on_nonfinite="raise")
        with pytest.raises(NonFiniteGradientError):
            next(run)
        assert x.item() == 1.0


def _clone(state: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: value.clone() for name, value in state.items() if isinstance(value, Tensor)}


def _same(a: object, b: object) -> bool:
    if isinstance(a, list):
        return all(map(torch.equal, a, b))
    return all(torch.equal(a[name], b[name]) for name in a)
