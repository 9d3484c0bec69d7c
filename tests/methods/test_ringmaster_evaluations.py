"""Ringmaster computes one gradient per update, however many jobs it gives out."""

import pytest
import torch

from lightning_async import SimulatedCluster, simulate
from lightning_async.methods import ParameterAgnosticRingmaster, RingmasterASGD
from lightning_async.optim import LMO
from lightning_async.simulation import Job, SqrtTimes, UniformTimes

STEPS = 400


def run(method, cluster, optimizer=torch.optim.SGD) -> tuple[int, int]:
    """Gradients computed, and jobs that were given out and have ended, in so many updates."""
    x, computed = torch.ones(3), []

    def gradient(job: Job) -> list[torch.Tensor]:
        computed.append(job)
        return [x.clone()]

    simulation = simulate(method, cluster, [x], optimizer([x], lr=1e-3), gradient, max_steps=STEPS)
    steps = list(simulation)
    assert len(steps) == STEPS
    return len(computed), STEPS + simulation.server.discarded


@pytest.mark.parametrize(("num_workers", "ended_per_update"), [(8, 4.0), (64, 32.0)])
def test_with_threshold_two_one_gradient_per_update_where_evaluation_at_dispatch_computes_n_halves(
    num_workers: int, ended_per_update: float
) -> None:
    computed, ended = run(RingmasterASGD(threshold=2), SimulatedCluster(UniformTimes(num_workers)))
    assert computed == STEPS
    assert ended / STEPS == pytest.approx(ended_per_update, rel=0.02)


@pytest.mark.parametrize("stops", [True, False])
@pytest.mark.parametrize("times", [UniformTimes, SqrtTimes])
def test_stops_and_times_make_no_difference(times, stops: bool) -> None:
    computed, ended = run(RingmasterASGD(threshold=2, stops=stops), SimulatedCluster(times(16)))
    assert computed == STEPS < ended


def test_nor_does_a_threshold_that_grows() -> None:
    def optimizer(parameters, lr):
        return LMO(parameters, lr=lr, norm="euclidean")

    computed, ended = run(ParameterAgnosticRingmaster(), SimulatedCluster(SqrtTimes(64)), optimizer)
    assert computed == STEPS < ended
