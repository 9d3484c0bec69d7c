"""A budget of logical time bounds a step that is never complete, and changes nothing else."""

from itertools import islice

import pytest
import torch

from lightning_async import simulate
from lightning_async.methods import (
    ASGD,
    IASGD,
    FedBuff,
    MaleniaSGD,
    Method,
    MinibatchSGD,
    RennalaSGD,
    RingleaderASGD,
    RingmasterASGD,
)
from lightning_async.methods.server import ParameterServer
from lightning_async.simulation import FixedTimes, NoArrivalError, RandomTimes, SimulatedCluster


@pytest.mark.parametrize("stops", [True, False])
def test_the_budget_ends_a_run_whose_step_is_never_complete(stops: bool) -> None:
    x = torch.zeros(1)
    cluster = SimulatedCluster(FixedTimes([1.0, 2.0]))
    method = RennalaSGD(10**9, stops=stops)
    run = simulate(method, cluster, [x], torch.optim.SGD([x], 0.1), lambda job: [x], max_time=5.0)
    assert list(run) == list(run) == []


@pytest.mark.parametrize(
    "method",
    [
        ASGD(),
        MinibatchSGD(),
        RennalaSGD(3),
        RingmasterASGD(3),
        RingleaderASGD(),
        MaleniaSGD(),
        IASGD(),
        FedBuff(2, local_steps=3, local_lr=0.1),
    ],
    ids=repr,
)
def test_a_horizon_that_is_put_off_leaves_the_schedule_as_it_was(method: Method) -> None:
    cluster = SimulatedCluster(RandomTimes(4, "exponential"), seed=3)
    expected = list(islice(method.steps(cluster), 60))
    server = ParameterServer(method, cluster, [torch.zeros(2)])
    made = []
    for horizon in (0.1, expected[20].time, expected[40].time + 1e-3, float("inf")):
        server.horizon = horizon
        while len(made) < 60 and server.next_step().time <= horizon:
            made.append(server.next_step())
            server.before_update()
            server.after_update()
            assert set(server.versions.state_dict()) <= set(server.versions.out)
    assert made == expected


def test_what_is_past_the_horizon_is_seen_and_not_made() -> None:
    server = ParameterServer(RennalaSGD(10), SimulatedCluster(FixedTimes([1.0])), [torch.zeros(1)])
    server.horizon = 5.0
    assert server.next_step().time == 6.0
    with pytest.raises(RuntimeError, match=r"no step is made by the horizon, 5\.0"):
        server.after_update()
    server.horizon = 20.0
    assert server.next_step().time == 10.0


def test_a_clock_beyond_the_largest_float_is_an_error() -> None:
    with pytest.raises(NoArrivalError, match="exceeds the largest float; measure times in a larger unit"):
        list(islice(ASGD().steps(SimulatedCluster(FixedTimes([1e308]))), 3))
