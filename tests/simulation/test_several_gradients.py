"""Jobs of several gradients: how long they take, and that a cluster remembers."""

from __future__ import annotations

import copy
import pickle

import pytest

from lightning_async.simulation import (
    BernoulliStragglers,
    FixedTimes,
    HalfNormalNoise,
    Link,
    PowerTimes,
    SimulatedCluster,
    SqrtTimes,
    WorkerTimes,
)
from lightning_async.simulation.several_gradients import SeveralGradients

MODELS = [
    FixedTimes([0.1, 0.7]),
    HalfNormalNoise(SqrtTimes(2), scale=0.3),
    PowerTimes([0.5, 2.0]),
    BernoulliStragglers([0.0, 1.0]),
]


@pytest.mark.parametrize("times", MODELS, ids=repr)
def test_a_job_is_its_gradients_one_after_the_other(times: WorkerTimes) -> None:
    one, several = times.sampler(5), SeveralGradients(times, 3).sampler(5)
    for worker in (0, 1):
        for job in range(20):
            end = 2.5
            for number in range(3 * job, 3 * job + 3):
                end += one(worker, number, end)
            assert several(worker, job, 2.5) == pytest.approx(end - 2.5)


def test_constant_times_stay_constant_and_agree_with_the_sampler_to_the_last_bit() -> None:
    several = SeveralGradients(FixedTimes([0.1, 0.7]), 3)
    duration = several.sampler(0)
    assert several.constant == (duration(0, 4, 0.0), duration(1, 0, 0.0))


@pytest.mark.parametrize("value", [0, -1])
def test_a_job_has_a_gradient(value: int) -> None:
    with pytest.raises(ValueError, match="per_job must be at least 1, got"):
        SeveralGradients(FixedTimes([1.0]), value)


def test_a_run_remembers_how_many_gradients_a_job_has_and_the_cluster_that_it_is_a_run_of_has_one() -> None:
    cluster = SimulatedCluster(FixedTimes([1.0]), Link(latency=0.5))
    run = cluster.start(gradients_per_job=4)
    for copied in (run, run.start(), copy.deepcopy(run), pickle.loads(pickle.dumps(run))):
        job = copied.dispatch(0, version=0)
        assert (copied.next_arrival().time, copied.worker_time(job)) == (5.0, 5.0)
    cluster.dispatch(0, version=0)
    assert cluster.next_arrival().time == 2.0
    assert run.start(gradients_per_job=1).worker_time(job) == 2.0
