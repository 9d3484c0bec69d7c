"""One method object may drive several runs of replicas at the same time."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from lightning_async import Link, simulate
from lightning_async.methods import LOSCAR, DiLoCo, ReplicaMethod
from lightning_async.replica_loop import ReplicaSimulation
from lightning_async.simulation import SimulatedCluster, TwoSpeedTimes


def run(method: ReplicaMethod, size: int) -> tuple[Tensor, ReplicaSimulation]:
    x = torch.linspace(1.0, 2.0, size)
    cluster = SimulatedCluster(TwoSpeedTimes(4, 3.0), Link(latency=1.0, bandwidth=size / 2))
    return x, simulate(method, cluster, [x], torch.optim.SGD([x], lr=0.1), lambda job: [x + job.worker], max_steps=120)


@pytest.mark.parametrize(
    "make", [lambda: DiLoCo(4.0), lambda: LOSCAR(0.5, compute_window=4.0)], ids=["diloco", "loscar"]
)
def test_runs_that_share_a_method_do_not_mix(make) -> None:
    shared = make()
    (x, first), (y, second) = run(shared, 6), run(shared, 10)
    times = [(a.time, b.time) for a, b in zip(first, second, strict=True)]
    (x_alone, first_alone), (y_alone, second_alone) = run(make(), 6), run(make(), 10)
    assert [a.time for a in first_alone] == [a for a, _ in times]
    assert [b.time for b in second_alone] == [b for _, b in times]
    assert torch.equal(x, x_alone)
    assert torch.equal(y, y_alone)
