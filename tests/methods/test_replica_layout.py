"""How parameters lie in memory: replicas keep it, and nothing but the order of coordinates depends on it."""

import io

import pytest
import torch
from torch import nn

from lightning_async import Link, SimulatedCluster, simulate
from lightning_async.methods import LOSCAR, DiLoCo, LocalSGD
from lightning_async.methods.flat import FlatReplicas
from lightning_async.simulation import FixedTimes

_CLUSTER = SimulatedCluster(FixedTimes([1.0, 1.5, 2.3]), Link(latency=3.0))
_METHODS = {
    "loscar": lambda: LOSCAR(0.5, compute_window=4.0),
    "local_sgd": lambda: LocalSGD(4.0),
    "diloco": lambda: DiLoCo(4.0),
}


@pytest.fixture(autouse=True)
def _one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def _numbers(*shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(0))


def _channels_last(*shape):
    return _numbers(*shape).to(memory_format=torch.channels_last)


_FILLING = {
    "contiguous": _numbers(4, 3),
    "transposed": _numbers(4, 3).t(),
    "permuted": _numbers(2, 3, 4).permute(1, 2, 0),
    "channels-last": _channels_last(5, 3, 2, 2),
    "channels-last, 1 x 1": _channels_last(5, 3, 1, 1),
    "scalar": _numbers(),
    "empty": _numbers(0, 3),
    "empty, transposed": _numbers(0, 3).t(),
}
_OTHERS = {
    "expanded": _numbers(3, 1).expand(3, 4),
    "with holes": _numbers(3, 4)[:, :3],
    "overlapping": _numbers(8).as_strided((3, 3), (2, 1)),
}


@pytest.mark.parametrize("name", _FILLING)
def test_a_tensor_that_fills_its_memory_keeps_its_strides(name):
    flat = FlatReplicas([_numbers(5), _FILLING[name], _numbers(7)], 3)
    average = flat.split(flat.mean())
    assert {views[1].stride() for views in (flat.views(0), flat.views(2), average)} == {_FILLING[name].stride()}


@pytest.mark.parametrize("name", _OTHERS)
def test_any_other_tensor_becomes_contiguous(name):
    assert FlatReplicas([_numbers(5), _OTHERS[name]], 2).views(1)[1].is_contiguous()


@pytest.mark.parametrize("name", _FILLING | _OTHERS)
def test_all_copies_and_their_mean_are_the_tensor(name):
    tensor = (_FILLING | _OTHERS)[name]
    flat = FlatReplicas([_numbers(5), tensor, _numbers(7)], 4)
    for views in (flat.views(0), flat.views(3), flat.split(flat.mean())):
        assert torch.equal(views[1], tensor)


@pytest.mark.parametrize("name", _FILLING)
def test_coordinates_are_counted_in_the_order_of_the_memory(name):
    tensor = _FILLING[name]
    flat = FlatReplicas([_numbers(5), tensor, _numbers(7)], 2)
    expected = torch.cat([_numbers(5), tensor.as_strided((tensor.numel(),), (1,)), _numbers(7)])
    assert torch.equal(flat.compact(), expected.expand(2, -1))
    coordinates = torch.arange(flat.num_coordinates).numpy()
    assert torch.equal(flat.rows[1][flat.positions(coordinates)], expected)


class _Network:
    """A small network whose gradients depend on the job alone, and its optimizer."""

    def __init__(self, layout):
        torch.manual_seed(0)
        self.module = nn.Sequential(
            nn.Conv2d(3, 17, 3), nn.ReLU(), nn.Conv2d(17, 9, 1), nn.Flatten(), nn.Linear(9 * 36, 4)
        )
        self.channels_last = layout == "channels-last"
        if self.channels_last:
            self.module.to(memory_format=torch.channels_last)
        if layout == "transposed":
            self.module[4].weight = nn.Parameter(self.module[4].weight.detach().t().contiguous().t())
        self.parameters = list(self.module.parameters())
        self.optimizer = torch.optim.SGD(self.parameters, lr=0.05, momentum=0.9)

    def gradient(self, worker, number):
        generator = torch.Generator().manual_seed(100 * worker + number)
        x = torch.randn(4, 3, 8, 8, generator=generator)
        if self.channels_last:
            x = x.to(memory_format=torch.channels_last)
        for p in self.parameters:
            p.grad = None
        loss = nn.functional.cross_entropy(self.module(x), torch.randint(0, 4, (4,), generator=generator))
        loss.backward()
        return [p.grad for p in self.parameters]

    def simulate(self, method, cluster, **limits):
        gradient = lambda job: self.gradient(job.worker, job.number)  # noqa: E731
        return simulate(method, cluster, self.parameters, self.optimizer, gradient, **limits)


_LAYOUTS = ["contiguous", "channels-last", "transposed"]


@pytest.mark.parametrize("layout", _LAYOUTS)
def test_one_worker_is_a_plain_loop_bit_for_bit(layout):
    plain, network = _Network(layout), _Network(layout)
    for number in range(20):
        plain.gradient(0, number)
        plain.optimizer.step()
    for _ in network.simulate(_METHODS["loscar"](), SimulatedCluster(FixedTimes([1.0])), max_steps=20):
        pass
    assert all(map(torch.equal, network.parameters, plain.parameters))
    for mine, theirs in zip(network.parameters, plain.parameters, strict=True):
        assert mine.stride() == theirs.stride()
        states = [network.optimizer.state[mine], plain.optimizer.state[theirs]]
        assert states[0]["momentum_buffer"].stride() == states[1]["momentum_buffer"].stride()


def _train(method, x, steps=60):
    """Where the replicas are after some steps, as tensors of their own shape."""
    running = simulate(
        method,
        _CLUSTER,
        [x],
        torch.optim.SGD([x], lr=0.1, momentum=0.5),
        lambda job: [x * (job.worker + 1)],
        max_steps=steps,
    )
    for _ in running:
        pass
    return [running.local.replicas.flat.views(replica)[0] for replica in range(3)]


@pytest.mark.parametrize("name", ["local_sgd", "diloco"])
@pytest.mark.parametrize("layout", ["transposed", "permuted", "channels-last"])
def test_dense_merges_are_those_of_contiguous_tensors(name, layout):
    replicas = [_train(_METHODS[name](), x) for x in (_FILLING[layout].clone(), _FILLING[layout].contiguous())]
    assert all(map(torch.equal, *replicas))


@pytest.mark.parametrize("layout", ["transposed", "permuted", "channels-last"])
def test_a_mask_counts_in_the_order_of_the_memory(layout):
    x = _FILLING[layout].clone()
    in_memory = torch.zeros_like(x)  # the coordinate of every element
    in_memory.as_strided((x.numel(),), (1,)).copy_(torch.arange(x.numel()))
    exchanged = range(0, x.numel(), 3)
    where = [i for i, coordinate in enumerate(in_memory.flatten().tolist()) if coordinate in exchanged]
    masks = [lambda round, d: exchanged, lambda round, d: where]
    replicas = [
        _train(LOSCAR(0.5, compute_window=4.0, mask=mask), tensor)
        for mask, tensor in zip(masks, (x, x.contiguous()), strict=True)
    ]
    assert all(map(torch.equal, *replicas))


def _through_a_file(state):
    file = io.BytesIO()
    torch.save(state, file)
    file.seek(0)
    return torch.load(file, weights_only=True)


def _whole_and_stopped(name, layout):
    """Replicas of a run, and the state of the same one stopped when a message travels, or between two merges."""
    whole, stopped = _Network(layout), _Network(layout)
    running = whole.simulate(_METHODS[name](), _CLUSTER, max_steps=40)
    for _ in running:
        pass
    first = stopped.simulate(_METHODS[name](), _CLUSTER, max_steps=23)
    for _ in first:
        pass
    state = first.local.state_dict()
    assert bool(state["message"]) == (name == "loscar")
    return running, state


def _finish(name, network, state):
    running = network.simulate(_METHODS[name](), _CLUSTER, max_steps=40)
    running.local.load_state_dict(state)
    for _ in running:
        pass
    return running


@pytest.mark.parametrize("name", ["loscar", "diloco"])
@pytest.mark.parametrize("layout", _LAYOUTS)
def test_a_resumed_run_continues_bit_for_bit(name, layout):
    whole, state = _whole_and_stopped(name, layout)
    resumed = _finish(name, _Network(layout), _through_a_file(state))
    assert torch.equal(resumed.replicas, whole.replicas)
    assert resumed.local.replicas.flat.strides == whole.local.replicas.flat.strides


@pytest.mark.parametrize("name", ["loscar", "diloco"])
@pytest.mark.parametrize(("saved", "now"), [("contiguous", "transposed"), ("transposed", "contiguous")])
def test_a_run_is_resumed_in_the_layout_that_was_saved(name, saved, now):
    whole, state = _whole_and_stopped(name, saved)
    with pytest.warns(UserWarning, match="in another order"):
        resumed = _finish(name, _Network(now), _through_a_file(state))
    assert torch.equal(resumed.replicas, whole.replicas)
    assert resumed.local.replicas.flat.strides == whole.local.replicas.flat.strides


def test_a_replica_that_is_in_place_is_seen_in_the_layout_that_was_loaded():
    transposed, contiguous = _Network("transposed"), _Network("contiguous")
    first, second = (network.simulate(_METHODS["loscar"](), _CLUSTER) for network in (transposed, contiguous))
    next(first)
    next(second)
    assert second.local.replicas.in_place == first.local.replicas.last
    with pytest.warns(UserWarning, match="in another order"):
        second.local.load_state_dict(first.local.state_dict())
    assert all(map(torch.equal, contiguous.parameters, transposed.parameters))


def test_a_state_without_a_layout_is_one_of_contiguous_tensors():
    whole, state = _whole_and_stopped("loscar", "contiguous")
    del state["replicas"]["strides"]
    with pytest.warns(UserWarning, match="in another order"):
        resumed = _finish("loscar", _Network("transposed"), state)
    assert torch.equal(resumed.replicas, whole.replicas)
