"""Which parameters and buffers have replicas under a Trainer, and which are refused."""

import pytest
import torch
from lightning.fabric.utilities.exceptions import MisconfigurationException
from torch import nn

from lightning_async import Link, SimulatedCluster
from lightning_async.methods import LOSCAR, DiLoCo, LocalSGD
from lightning_async.methods.buffer_replicas import BufferReplicas
from lightning_async.simulation import FixedTimes, UniformTimes
from lightning_async.strategies import LocalSGDStrategy

_METHODS = {
    "loscar": lambda: LOSCAR(0.5, compute_window=4.0),
    "local_sgd": lambda: LocalSGD(4.0),
    "diloco": lambda: DiLoCo(4.0),
}


def _strategy(name="loscar", times=(1.0, 1.5, 2.3)):
    return LocalSGDStrategy(_METHODS[name](), SimulatedCluster(FixedTimes(list(times)), Link(latency=3.0)), seed=1)


@pytest.fixture
def scaled(classifier):
    """With a scalar among its parameters, and one among its buffers."""

    class Scaled(classifier):
        def __init__(self, optimizer="momentum", dropout=0.4) -> None:
            super().__init__(optimizer, dropout)
            self.scale = nn.Parameter(torch.tensor(1.5))
            self.register_buffer("mean", torch.tensor(0.0))

        def loss(self, batch):
            x, y = batch
            if self.training:
                self.mean.lerp_(x.mean(), 0.1)
            return super().loss([(x - self.mean) * self.scale, y])

    return Scaled


@pytest.mark.parametrize("name", ["loscar", "local_sgd"])
def test_a_scalar_of_one_worker_is_trained_as_by_plain_training(scaled, images, quiet, name):
    modules = []
    for strategy in (None, LocalSGDStrategy(_METHODS[name](), SimulatedCluster(UniformTimes(1), Link(latency=3.0)))):
        modules.append(scaled("adamw", dropout=0.0))
        quiet(max_steps=24, **({} if strategy is None else {"strategy": strategy})).fit(modules[-1], images())
    plain, ours = (module.state_dict() for module in modules)
    assert ours["scale"].shape == ()
    assert abs(ours["scale"].item() - 1.5) > 0.01
    assert all(torch.equal(plain[key], ours[key]) for key in plain)


@pytest.mark.parametrize("name", _METHODS)
def test_a_scalar_is_continued_bit_for_bit_from_a_checkpoint(scaled, images, quiet, tmp_path, name):
    def run(steps, **arguments):
        trainer = quiet(strategy=_strategy(name), max_steps=steps)
        trainer.fit(scaled("adamw"), images(), **arguments)
        return trainer

    run(11).save_checkpoint(tmp_path / "11.ckpt")
    whole, resumed = run(30), run(30, ckpt_path=tmp_path / "11.ckpt")
    assert torch.equal(whole.strategy.replicas, resumed.strategy.replicas)
    assert torch.equal(whole.model.mean, resumed.model.mean)
    torch.testing.assert_close(whole.model.scale, whole.strategy.replicas[:, 0].mean(), rtol=0, atol=1e-7)


def _gathering(classifier, optimizer, sparse, coalesced):
    """Every sample has a weight, which is all that is trained."""

    class Gathering(classifier):
        def __init__(self) -> None:
            super().__init__(dropout=0.0)
            self.network.requires_grad_(False)
            self.bias = nn.Parameter(torch.zeros(20))
            self.weight = nn.Parameter(torch.ones(40))
            if coalesced:
                self.weight.register_hook(torch.Tensor.coalesce)

        def training_step(self, batch, batch_idx):
            index = (batch[0].flatten(1).abs().sum(1) * 2).long().clamp(max=39)
            return (torch.gather(self.weight, 0, index, sparse_grad=sparse) - index / 40).square().mean()

        def configure_optimizers(self):
            return optimizer([self.weight])

    return Gathering()


@pytest.mark.parametrize("coalesced", [True, False])
@pytest.mark.parametrize(
    "optimizer",
    [
        lambda parameters: torch.optim.SGD(parameters, lr=0.5, momentum=0.9),
        lambda parameters: torch.optim.Adagrad(parameters, lr=0.1),
        lambda parameters: torch.optim.SparseAdam(parameters, lr=0.1),
    ],
    ids=["sgd", "adagrad", "sparse-adam"],
)
def test_vectors_with_sparse_gradients_are_trained_as_by_plain_training(
    classifier, images, quiet, optimizer, coalesced
):
    weights = []
    for strategy in (None, _strategy("local_sgd", times=[1.0])):
        module = _gathering(classifier, optimizer, sparse=True, coalesced=coalesced)
        quiet(max_steps=24, **({} if strategy is None else {"strategy": strategy})).fit(module, images())
        weights.append(module.weight)
    assert torch.equal(*weights)
    assert (weights[0] != 1.0).any()


@pytest.mark.parametrize("coalesced", [True, False])
def test_sparse_and_dense_gradients_of_a_vector_train_the_same_replicas(classifier, images, quiet, coalesced):
    replicas = []
    for sparse in (True, False):
        module, strategy = (
            _gathering(classifier, lambda p: torch.optim.SGD(p, lr=0.5), sparse, sparse and coalesced),
            _strategy(),
        )
        quiet(strategy=strategy, max_steps=60).fit(module, images())
        replicas.append(strategy.replicas)
    torch.testing.assert_close(*replicas)


def test_a_part_that_is_unfrozen_during_training_is_refused(classifier, images, quiet):
    class Unfreezing(classifier):
        def on_train_batch_start(self, batch, batch_idx) -> None:
            self.network[0].requires_grad_(self.global_step >= 5)

    module = Unfreezing()
    module.network[0].requires_grad_(False)
    start, trainer = module.network[0].weight.clone(), quiet(strategy=_strategy(), max_steps=20)
    with pytest.raises(MisconfigurationException, match=r"network\.0\.weight has been unfrozen.*Train in two fits"):
        trainer.fit(module, images())
    assert trainer.global_step == 5
    assert torch.equal(module.network[0].weight, start)


def test_the_parts_are_trained_in_two_fits(classifier, images, quiet):
    module = classifier()
    module.network[0].requires_grad_(False)
    start = module.network[0].weight.clone()
    quiet(strategy=_strategy(), max_steps=5).fit(module, images())
    assert torch.equal(module.network[0].weight, start)
    module.network[0].requires_grad_(True)
    strategy = _strategy()
    quiet(strategy=strategy, max_steps=5).fit(module, images())
    assert strategy.replicas.shape[1] == sum(p.numel() for p in module.parameters())
    assert not torch.equal(module.network[0].weight, start)


def test_trainable_tensors_that_the_module_does_not_own_are_refused_before_training(classifier, images, quiet):
    class Hidden(classifier):
        def __init__(self) -> None:
            super().__init__()
            self.hidden = [torch.zeros(3, requires_grad=True)]

        def training_step(self, batch, batch_idx):
            raise AssertionError("training has begun")

        def configure_optimizers(self):
            return torch.optim.SGD([*self.parameters(), *self.hidden], lr=0.1)

    with pytest.raises(MisconfigurationException, match=r"SGD trains a tensor of shape \(3,\).*Hidden.*attribute"):
        quiet(strategy=_strategy(), max_steps=5).fit(Hidden(), images())


_UNUSABLE = {
    **{str(dtype): torch.zeros(2, dtype=dtype) for dtype in (torch.uint16, torch.float8_e4m3fn, torch.complex32)},
    "torch.sparse_coo": torch.eye(2).to_sparse(),
    "torch.sparse_csr": torch.eye(2).to_sparse_csr(),
    "torch.quint8": torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.quint8),
}


@pytest.mark.parametrize("kind", _UNUSABLE)
def test_buffers_that_have_no_average_are_refused_before_training(classifier, images, quiet, kind):
    class Buffered(classifier):
        def training_step(self, batch, batch_idx):
            raise AssertionError("training has begun")

    module = Buffered()
    module.network[1].register_buffer("table", _UNUSABLE[kind])
    with pytest.raises(ValueError, match=rf"'network\.1\.table' of .*{kind}.*torch\.float32.*plain attribute"):
        quiet(strategy=_strategy(), max_steps=5).fit(module, images())


@pytest.mark.parametrize(
    ("dtype", "average"),
    [
        (torch.complex64, 4 / 3 + 8j / 3),
        (torch.complex128, 4 / 3 + 8j / 3),
        (torch.bfloat16, 4 / 3),
        (torch.uint8, 2.0),
        (torch.int64, 2.0),
        (torch.bool, 1.0),
    ],
)
@pytest.mark.parametrize("shape", [(), (2, 3), (0,)])
def test_numbers_are_averaged_and_of_counters_and_flags_the_maximum_is_kept(dtype, average, shape):
    module = nn.Module()
    module.register_buffer("seen", torch.zeros(shape, dtype=dtype))
    buffers = BufferReplicas(module, 3)
    for replica, value in enumerate([0.0, 2.0, 2.0]):
        buffers.enter(replica)
        module.seen.fill_(value * (1 + 2j) if dtype.is_complex else value)
        buffers.keep(replica)
    buffers.enter_average()
    assert module.seen.shape == shape
    assert module.seen.dtype == dtype
    torch.testing.assert_close(module.seen, torch.full(shape, average, dtype=dtype))
    buffers.merge()
    buffers.enter(0)
    torch.testing.assert_close(module.seen, torch.full(shape, average, dtype=dtype))
