"""Parameters and gradients of every kind that replicas can be trained with, in the plain loop."""

import pytest
import torch

from lightning_async import Link, SimulatedCluster, simulate
from lightning_async.methods import ASGD, LOSCAR, DiLoCo, LocalSGD
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


@pytest.mark.parametrize("shape", [(3,), (2, 3)])
def test_sparse_gradients_are_added_where_they_belong(shape):
    flat = FlatReplicas([torch.zeros(16), torch.zeros(shape), torch.zeros(64)], 3)
    average = flat.mean()
    gradient = torch.ones(shape).to_sparse()
    for row, views in [(flat.rows[0], flat.views(0)), (average, flat.split(average))]:
        views[1].add_(gradient, alpha=2.0)
        assert row.nonzero().flatten().tolist() == list(range(16, 16 + gradient._nnz()))
        assert torch.equal(views[1], torch.full(shape, 2.0))
    assert all(view.storage_offset() == 0 for replica in range(3) for view in flat.views(replica))


def test_views_have_the_strides_of_tensors_of_their_own():
    tensors = [torch.zeros(shape) for shape in [(), (1, 3), (3, 1, 2), (1, 1), (0, 3)]]
    flat = FlatReplicas(tensors, 2)
    assert [view.stride() for view in flat.views(1)] == [tensor.stride() for tensor in tensors]


@pytest.mark.parametrize("name", _METHODS)
@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_sparse_gradients_train_like_dense_ones(name, momentum):
    ends = []
    for convert in (torch.Tensor.to_sparse, torch.clone):
        x, y = torch.linspace(1.0, 3.0, 3), torch.ones(4, 2)
        gradient = lambda job, x=x, y=y, convert=convert: [convert(x * (job.worker + 1)), convert(y)]  # noqa: E731
        ends.append(_train(name, [x, y], gradient, steps=100, momentum=momentum))
    torch.testing.assert_close(*ends, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("method", [_METHODS["loscar"], ASGD])
@pytest.mark.parametrize("dtype", [torch.int64, torch.uint8, torch.bool])
def test_integers_are_refused_at_the_start(dtype, method):
    x = torch.ones(3, dtype=dtype)
    with pytest.raises(ValueError, match=rf"floating-point dtype.*parameter 0 of shape \(3,\) and {dtype}"):
        simulate(method(), _CLUSTER, [x], torch.optim.SGD([x], lr=0.1), lambda job: [x])
