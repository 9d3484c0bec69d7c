"""Parameters that come loose from the replicas' memory: said at the next merge, and before a state is saved."""

import copy
from multiprocessing.reduction import ForkingPickler

import pytest
import torch

from lightning_async import Link, SimulatedCluster, simulate
from lightning_async.methods import LOSCAR
from lightning_async.simulation import FixedTimes


def _share(tensor):
    tensor.share_memory_()


def _send(tensor):
    ForkingPickler.dumps(tensor)


def _start(sparsity=1.0, limit=None):
    x, y = torch.linspace(1.0, 2.0, 1000), torch.ones(24)
    cluster = SimulatedCluster(FixedTimes([1.0, 3.0]), Link(latency=2.0))
    return [x, y], simulate(
        LOSCAR(sparsity, compute_window=3.0),
        cluster,
        [x, y],
        torch.optim.SGD([x, y], lr=0.1),
        lambda job: [x + job.worker, y.clone()],
        max_steps=limit,
    )


def _run_to_the_merge(running):
    while not running.local.rounds:
        next(running)


@pytest.mark.parametrize("move", [_share, _send])
@pytest.mark.parametrize("index", [0, 1])
def test_a_parameter_that_was_moved_is_refused_at_the_merge(move, index):
    parameters, running = _start()
    worker = next(running).jobs[0].worker
    move(parameters[index])
    with pytest.raises(RuntimeError, match=rf"parameter {index} of replica {worker} was moved.*detach\(\)\.clone"):
        _run_to_the_merge(running)


@pytest.mark.parametrize("move", [_share, _send])
def test_a_parameter_that_was_moved_is_refused_in_a_state(move):
    parameters, running = _start()
    next(running)
    move(parameters[0])
    with pytest.raises(RuntimeError, match="parameter 0 of replica 0 was moved"):
        running.local.state_dict()


def test_a_parameter_that_was_moved_is_refused_where_nothing_is_sent():
    parameters, running = _start(sparsity=0.0)
    next(running)
    _share(parameters[0])
    with pytest.raises(RuntimeError, match="parameter 0 of replica 0 was moved"):
        _run_to_the_merge(running)


@pytest.mark.parametrize("move", [_share, _send])
def test_steps_after_the_buffer_was_moved_touch_no_freed_memory(move):
    _, running = _start()
    next(running)
    move(running.local.replicas.flat.rows)
    with pytest.raises(RuntimeError, match=r"buffer of all replicas was moved.*replicas\.clone"):
        _run_to_the_merge(running)
    assert all(view.isfinite().all() for replica in range(2) for view in running.local.replicas.flat.views(replica))


def test_a_loaded_state_replaces_what_was_assigned_to_a_parameter():
    parameters, running = _start()
    next(running)
    state = copy.deepcopy(running.local.state_dict())
    saved = parameters[1].clone()
    parameters[1].data = torch.zeros(24)
    running.local.load_state_dict(state)
    assert torch.equal(parameters[1], saved)
    next(running)
    torch.testing.assert_close(running.local.replicas.flat.views(0)[1], saved * 0.9)


def test_sharing_the_average_model_does_no_harm():
    ends = []
    for shares in (False, True):
        parameters, running = _start(limit=60)
        for _ in running:
            if shares and running.local.replicas.in_place == "average":
                _share(parameters[0])
        assert running.local.rounds > 3
        ends.append(running.replicas)
    assert torch.equal(*ends)
