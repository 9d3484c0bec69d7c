"""What LOSCAR gains: 1/n in the stationary error, and time as step counting predicts."""

import numpy as np
import pytest
import torch

from lightning_async import Link, SimulatedCluster, simulate
from lightning_async.methods import LOSCAR
from lightning_async.simulation import UniformTimes
from recipes.local_training import StepCounting

COORDINATES, GROUPS = 400, 20


def _stationary_error(n: int, method: LOSCAR) -> torch.Tensor:
    """Mean squared distance of the average model to the optimum, for groups of independent coordinates."""
    x = torch.zeros(COORDINATES)
    curvature = torch.linspace(0.5, 1.5, GROUPS).repeat(COORDINATES // GROUPS)
    generator = torch.Generator().manual_seed(n)

    def gradient(job):
        return [torch.addcmul(torch.randn(COORDINATES, generator=generator), curvature, x)]

    cluster = SimulatedCluster(UniformTimes(n), Link(latency=2.0))
    running = simulate(method, cluster, [x], torch.optim.SGD([x], lr=0.2), gradient)
    total, seen, closed = torch.zeros(COORDINATES), 0, 0
    for _ in running:
        if running.local.rounds > closed:
            closed = running.local.rounds
            if closed > 15:
                total += x.square()
                seen += 1
            if closed == 55:
                break
    return (total / seen).view(-1, GROUPS).mean(1)  # every row has all curvatures


@pytest.mark.parametrize("overlap", [True, False], ids=["overlap", "blocking"])
@pytest.mark.parametrize("sparsity", [1.0, 0.2, 0.01])
def test_the_stationary_error_of_the_average_falls_as_one_over_n(sparsity, overlap):
    workers = torch.tensor([1, 2, 4, 8, 16])
    method = LOSCAR(sparsity, overlap=overlap, compute_window=2.0)
    logs = torch.stack([_stationary_error(int(n), method).log() for n in workers])  # (5, groups)
    place = workers.log() - workers.log().mean()
    slopes = (place[:, None] * logs).sum(0) / place.square().sum()
    error = slopes.std() / len(slopes) ** 0.5
    assert error < 0.05
    assert abs(slopes.mean() + 1.0) <= 4 * error


def test_time_to_a_target_on_a9a_follows_step_counting():
    study = StepCounting()
    times = {name: np.mean([study.time(name, seed) for seed in range(5)]) for name in study.predicted}
    assert study.predicted == pytest.approx({"corrected": 1.0, "overwrite": 5 / 3, "blocking": 5.0})
    for name, ratio in study.predicted.items():
        assert times[name] / times["corrected"] == pytest.approx(ratio, rel=0.15)
