"""Parameters and gradients of every kind that replicas can be trained with, in the plain loop."""

import pytest
import torch

from lightning_async import Link, SimulatedCluster, simulate
from lightning_async.methods import LOSCAR, DiLoCo, LocalSGD
from lightning_async.methods.flat import FlatReplicas
from lightning_async.simulation import FixedTimes

_METHODS = {
    "loscar": lambda: LOSCAR(0.5, compute_window=4.0),
    "local_sgd": lambda: LocalSGD(4.0),
    "diloco": lambda: DiLoCo(4.0),
}
_CLUSTER = SimulatedCluster(FixedTimes([1.0, 1.5, 2.3]), Link(latency=3.0))


@pytest.mark.parametrize("shapes", [[()], [(2, 3), (), (0, 3), (0,), (1,)]], ids=["alone", "among-others"])
def test_a_scalar_is_a_column_of_the_replicas(shapes):
    torch.manual_seed(0)
    tensors = [torch.randn(shape) for shape in shapes]
    flat = FlatReplicas(tensors, 3)
    flat.rows += torch.arange(3.0)[:, None]
    columns = torch.cat([tensor.flatten() for tensor in tensors])
    assert torch.equal(flat.compact(), columns + torch.arange(3.0)[:, None])
    again = FlatReplicas([torch.zeros_like(tensor) for tensor in tensors], 3)
    again.load(flat.compact())
    assert torch.equal(again.compact(), flat.compact())
    assert [view.shape for view in again.views(1)] == [tensor.shape for tensor in tensors]


def _train(name, parameters, gradient, optimizer=torch.optim.SGD, steps=40, **arguments):
    """Replicas after some steps; the parameters hold their average then."""
    running = simulate(
        _METHODS[name](), _CLUSTER, parameters, optimizer(parameters, lr=0.1, **arguments), gradient, max_steps=steps
    )
    for _ in running:
        pass
    return running.replicas


@pytest.mark.parametrize("name", _METHODS)
def test_a_scalar_trains_as_a_vector_of_one(name):
    scalar, vector = torch.tensor(4.0), torch.tensor([4.0])
    replicas = [_train(name, [x], lambda job, x=x: [x.clone()]) for x in (scalar, vector)]
    assert torch.equal(*replicas)
    assert scalar.item() == vector.item() < 2.0
