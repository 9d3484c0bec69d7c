"""What LOSCAR gains: 1/n in the stationary error, and time as step counting predicts."""

import pytest
import torch

from lightning_async import Link, SimulatedCluster, simulate
from lightning_async.methods import LOSCAR
from lightning_async.randomness import job_seed
from lightning_async.simulation import UniformTimes
from recipes.data import A9A_TRAIN_ROWS, load_a9a

torch.set_num_threads(1)

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


WORKERS, WINDOW, TRAVEL, SPARSITY, TARGET = 8, 4.0, 16.0, 0.5, 0.335


def _time_to_target(seed: int, **variant) -> float:
    """Logical time at which the objective of the average model crosses the target, interpolated between round ends."""
    data = load_a9a().train
    x, y = data.features, data.targets
    signed = x * y[:, None]
    w = torch.zeros(x.shape[1])

    def gradient(job):
        draws = torch.Generator().manual_seed(job_seed(seed, job.worker, job.number))
        rows = signed[torch.randint(len(signed), (32,), generator=draws)]
        return [-(rows.T @ torch.sigmoid(-(rows @ w))) / 32 + w / A9A_TRAIN_ROWS]

    def objective() -> float:
        margins = signed @ w
        return (torch.nn.functional.softplus(-margins).mean() + w.square().sum() / (2 * A9A_TRAIN_ROWS)).item()

    method = LOSCAR(SPARSITY, compute_window=WINDOW, **variant)
    cluster = SimulatedCluster(UniformTimes(WORKERS), Link(latency=TRAVEL), seed)
    running = simulate(method, cluster, [w], torch.optim.SGD([w], lr=0.5), gradient)
    before, closed = (0.0, objective()), 0
    for step in running:
        if running.local.rounds > closed:
            closed = running.local.rounds
            now = (step.time, objective())
            if now[1] <= TARGET:
                share = (before[1] - TARGET) / (before[1] - now[1])
                return before[0] + share * (now[0] - before[0])
            before = now
    raise AssertionError("the run has no end")


def test_time_to_a_target_on_a9a_follows_step_counting():
    n, q = WINDOW, TRAVEL
    times = {
        name: torch.tensor([_time_to_target(seed, **variant) for seed in range(5)]).mean().item()
        for name, variant in {
            "corrected": {},
            "overwrite": {"merge": "overwrite"},
            "blocking": {"overlap": False},
        }.items()
    }
    assert times["blocking"] / times["corrected"] == pytest.approx((n + q) / n, rel=0.15)
    assert times["overwrite"] / times["corrected"] == pytest.approx((n + q) / (n + (1 - SPARSITY) * q), rel=0.15)
