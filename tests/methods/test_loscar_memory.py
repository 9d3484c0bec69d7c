"""What replicas need: n copies of the parameters, n optimizer states, and the values that travel."""

import gc
import math

import pytest
import torch

from lightning_async import Link, SimulatedCluster, simulate
from lightning_async.methods import LOSCAR
from lightning_async.simulation import UniformTimes

N, D, SPARSITY = 8, 20_000, 0.05
FLOAT = 4  # bytes


@pytest.fixture
def _only_what_is_new():
    """Hides from the collector what is there already: going through all of it takes a second."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


def _allocated() -> int:
    """Bytes of all new tensors that are alive."""
    gc.collect()
    tensors = [thing for thing in gc.get_objects() if issubclass(type(thing), torch.Tensor)]
    return sum({t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in tensors}.values())


@pytest.mark.usefixtures("_only_what_is_new")
@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_memory_is_n_parameters_n_optimizer_states_and_the_values_that_travel(momentum):
    x = torch.zeros(D)
    cluster = SimulatedCluster(UniformTimes(N), Link(latency=2.0))
    running = simulate(
        LOSCAR(SPARSITY, compute_window=2.0),
        cluster,
        [x],
        torch.optim.SGD([x], lr=0.1, momentum=momentum),
        lambda job: [x.clone()],
    )
    most, round_length = 0, 4 * N
    for step in running:
        if (step.index + 2) % round_length < 2:  # all values travel, and: all are merged
            most = max(most, _allocated())
        if running.local.rounds == 3:
            break
    copies = N * D * (2 if momentum else 1)
    travelling = N * math.ceil(SPARSITY * D)
    # One more copy is the gradient of the step, one the average that is in place when a round has closed.
    assert copies + travelling <= most / FLOAT <= copies + travelling + 2 * D
