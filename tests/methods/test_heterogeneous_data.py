"""Workers with data of their own: where each method ends, and how often and how soon it asks whom.

The objective is (1/n) sum_i f_i with f_i(x) = a_i (x - c_i)^2 / 2, without noise. Its minimum is the mean of the c_i
with weights a_i. If worker i makes a share s_i of the updates, the weights are s_i a_i instead.
"""

from __future__ import annotations

from itertools import islice

import numpy as np
import pytest
import torch
from torch import Tensor

from lightning_async import SimulatedCluster, simulate
from lightning_async.methods import ASGD, IASGD, FedBuff, MaleniaSGD, Method, MinibatchSGD, RingleaderASGD
from lightning_async.simulation import (
    BernoulliStragglers,
    FixedTimes,
    Job,
    Link,
    NoArrivalError,
    RandomTimes,
    TwoSpeedTimes,
    WorkerTimes,
)

TIMES = (1.0, 1.5, 2.0, 4.0, 7.0)
CURVATURES = torch.tensor([1.0, 3.0, 0.5, 2.0, 1.5], dtype=torch.float64)
OPTIMA = torch.tensor([4.0, -1.0, 2.0, -6.0, 3.0], dtype=torch.float64)
RIGHT = ((CURVATURES * OPTIMA).sum() / CURVATURES.sum()).item()
SPEEDS = 1.0 / torch.tensor(TIMES, dtype=torch.float64)
SPEED_WEIGHTED = ((SPEEDS * CURVATURES * OPTIMA).sum() / (SPEEDS * CURVATURES).sum()).item()

AGGREGATING = [MaleniaSGD(), MaleniaSGD(target=11.5), RingleaderASGD(), IASGD(), MinibatchSGD()]
CLUSTERS = {
    "fixed": SimulatedCluster(FixedTimes(TIMES)),
    "links": SimulatedCluster(FixedTimes(TIMES), Link(latency=0.5, bandwidth=16.0)),
    "random": SimulatedCluster(RandomTimes(5, "gamma", mean=TIMES), seed=1),
}


def run(method: Method, cluster: SimulatedCluster, lr: float, steps: int, start: float = 0.0) -> tuple[Tensor, ...]:
    """The iterates x_0, x_1, ..., the iterates at which gradients were taken, and the owners of their data."""
    x = torch.tensor([start], dtype=torch.float64)
    iterates, taken_at, owners = [x.item()], [], []

    def gradient(job: Job) -> list[Tensor]:
        taken_at.append(x.item())
        owners.append(job.shard)
        return [CURVATURES[job.shard] * (x - OPTIMA[job.shard])]

    for _ in simulate(method, cluster, [x], torch.optim.SGD([x], lr=lr), gradient, max_steps=steps, sharded=True):
        iterates.append(x.item())
    return (
        torch.tensor(iterates, dtype=torch.float64),
        torch.tensor(taken_at, dtype=torch.float64),
        torch.tensor(owners),
    )


@pytest.mark.parametrize("cluster", CLUSTERS)
@pytest.mark.parametrize("method", AGGREGATING, ids=repr)
def test_methods_that_count_every_worker_once_converge_to_the_minimum(method: Method, cluster: str) -> None:
    iterates, _, _ = run(method, CLUSTERS[cluster], lr=0.02, steps=1_500)
    assert iterates[-1].item() == pytest.approx(RIGHT, abs=1e-6)


@pytest.mark.parametrize("lr", [0.02, 0.004])
def test_who_finishes_sooner_pulls_harder_if_finishers_restart(lr: float) -> None:
    """After some periods of 84 units of time the iterate is within O(lr) of the speed-weighted point.

    Over one period the updates cancel. So the mean of the iterates at which gradients are taken, with weights a_i, is
    that point exactly.
    """
    assert abs(SPEED_WEIGHTED - RIGHT) > 0.5
    period = sum(round(84 / time) for time in TIMES)
    steps = period * round(0.12 / lr)
    iterates, taken_at, owners = run(ASGD(), CLUSTERS["fixed"], lr, steps, start=RIGHT)
    weights = CURVATURES[owners[-period:]]
    assert ((weights * taken_at[-period:]).sum() / weights.sum()).item() == pytest.approx(SPEED_WEIGHTED, abs=1e-9)
    assert (iterates[-period:] - SPEED_WEIGHTED).abs().max() < 30 * lr


def test_uniform_dispatch_is_unbiased_among_workers() -> None:
    """The worker of a job is drawn independently of the iterate that it gets: so its mean, too, is the minimum."""
    means = []
    for seed in range(12):
        cluster = SimulatedCluster(FixedTimes(TIMES), seed=seed)
        iterates, _, _ = run(ASGD("uniform"), cluster, lr=0.01, steps=3_000, start=RIGHT)
        means.append(iterates[500:].mean().item())
    error = np.std(means, ddof=1) / np.sqrt(len(means))
    assert abs(np.mean(means) - RIGHT) < 4 * error
    assert abs(np.mean(means) - SPEED_WEIGHTED) > 10 * error


@pytest.mark.parametrize("slowdown", [4.0, 8.0])
def test_updates_of_every_worker_are_as_many_under_uniform_dispatch_and_as_its_speed_otherwise(slowdown: float) -> None:
    cluster, calls, n = SimulatedCluster(TwoSpeedTimes(16, slowdown)), 100_000, 16

    def shares(method: Method) -> np.ndarray:
        owners = [step.jobs[0].worker for step in islice(method.steps(cluster), calls)]
        return np.bincount(owners, minlength=n) / calls

    error = np.sqrt((1 / n) * (1 - 1 / n) / calls)
    assert np.abs(shares(ASGD("uniform")) - 1 / n).max() < 4 * error
    finishers = shares(ASGD("finisher"))
    assert finishers[:8] == pytest.approx(1 / (8 + 8 / slowdown), abs=1e-3)
    assert finishers[8:] == pytest.approx(1 / (8 + 8 / slowdown) / slowdown, abs=1e-3)


@pytest.mark.parametrize(("slowdown", "expected"), [(4.0, 0.3275), (8.0, 0.643)])
def test_mean_time_of_a_call_under_uniform_dispatch(slowdown: float, expected: float) -> None:
    calls = 100_000
    schedule = ASGD("uniform").steps(SimulatedCluster(TwoSpeedTimes(16, slowdown)))
    last = next(islice(schedule, calls - 1, None))
    assert last.time / calls == pytest.approx(expected, rel=0.01)


@pytest.mark.parametrize("times", [FixedTimes(TIMES), RandomTimes(5, "pareto", mean=TIMES)], ids=repr)
class TestRingleader:
    @pytest.fixture
    def steps(self, times: WorkerTimes):
        return list(islice(RingleaderASGD().steps(SimulatedCluster(times, seed=4)), 5 * 200))

    def test_nothing_is_discarded(self, steps, times: WorkerTimes) -> None:
        used = sorted((job.worker, job.number) for step in steps for job in step.jobs)
        numbers = [[number for owner, number in used if owner == worker] for worker in range(5)]
        assert numbers == [list(range(len(mine))) for mine in numbers]
        assert sum(step.discarded for step in steps) == 0

    def test_every_worker_triggers_one_of_the_n_updates_of_a_round(self, steps, times: WorkerTimes) -> None:
        for start in range(0, len(steps), 5):
            triggers = [step.jobs[-1].worker for step in steps[start : start + 5]]
            assert sorted(triggers) == list(range(5))

    def test_what_is_in_the_table_has_a_delay_of_at_most_2n_minus_2(self, steps, times: WorkerTimes) -> None:
        """Also at the last update that uses it, long after its arrival."""
        table: dict[int, list[int]] = {}
        later: dict[int, list[int]] = {}
        delays = []
        for step in steps:
            if step.index % 5 == 0:
                table, later = later, {}
            for job in step.jobs:
                (later if job.version > step.round * 5 else table).setdefault(job.worker, []).append(job.version)
            assert sorted(table) == list(range(5))
            delays += [step.index - version for versions in table.values() for version in versions]
        assert max(delays) == 2 * 5 - 2
        assert all(delay <= 2 * 5 - 2 for step in steps for delay in step.delays)


@pytest.mark.parametrize("method", [MaleniaSGD(), RingleaderASGD(), IASGD()], ids=repr)
def test_methods_that_need_every_worker_say_so_when_one_never_finishes(method: Method) -> None:
    for worker, silent in enumerate(([1.0, 0.0], [0.0, 1.0])):
        with pytest.raises(NoArrivalError, match=f"worker {worker} computes .* does not wait for every worker"):
            next(method.steps(SimulatedCluster(BernoulliStragglers(silent))))


def test_ringleader_says_so_too_when_a_job_is_lost_later() -> None:
    schedule = RingleaderASGD().steps(SimulatedCluster(BernoulliStragglers([0.0, 0.1])))
    with pytest.raises(NoArrivalError, match="worker 1 computes a job that never finishes"):
        list(islice(schedule, 1_000))


def test_iasgd_goes_on_with_the_last_gradient_of_a_worker_that_has_stopped() -> None:
    schedule = list(islice(IASGD().steps(SimulatedCluster(BernoulliStragglers([0.0, 0.1]))), 500))
    assert {job.worker for step in schedule[-100:] for job in step.jobs} == {0}


def test_fedbuff_ends_where_asgd_does_since_fast_workers_send_more_often() -> None:
    """With one small local step and equal weights it is ASGD with delayed updates."""
    method = FedBuff(buffer=2, local_steps=1, local_lr=0.004, staleness_exponent=0.0)
    period = sum(round(84 / time) for time in TIMES)
    iterates, _, _ = run(method, CLUSTERS["fixed"], lr=1.0, steps=10 * period, start=RIGHT)
    assert (iterates[-period:] - SPEED_WEIGHTED).abs().max() < 0.1 < abs(SPEED_WEIGHTED - RIGHT)


def test_a_round_of_malenia_has_as_little_variance_as_its_target_says() -> None:
    """The harmonic mean of B_i is at least S/n, and was not before the last arrival."""
    for step in islice(MaleniaSGD(target=11.5).steps(CLUSTERS["random"]), 200):
        for jobs, enough in ((step.jobs, True), (step.jobs[:-1], False)):
            received = np.bincount([job.worker for job in jobs], minlength=5)
            harmonic = 5 / sum(1 / received) if all(received) else 0.0
            assert (harmonic >= 11.5 / 5) == enough


@pytest.mark.parametrize("method", [MaleniaSGD(), RingleaderASGD(), IASGD()], ids=repr)
def test_a_single_worker_makes_plain_sgd_to_the_last_bit(method: Method) -> None:
    def iterates(method: Method) -> list[Tensor]:
        generator = torch.Generator().manual_seed(0)
        x = torch.ones(7)
        sgd = torch.optim.SGD([x], lr=0.1, momentum=0.9)
        noisy = lambda job: [x.cos() + torch.randn(7, generator=generator)]  # noqa: E731
        return [x.clone() for _ in simulate(method, SimulatedCluster(FixedTimes([2.0])), [x], sgd, noisy, 50)]

    assert all(map(torch.equal, iterates(method), iterates(ASGD())))
