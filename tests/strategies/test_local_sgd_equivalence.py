"""Replicas against plain training and against loops written by hand, bit for bit."""

from collections.abc import Iterator

import pytest
import torch
from lightning.pytorch import Callback

from lightning_async import Link, SimulatedCluster, job_seed
from lightning_async.data import Dirichlet
from lightning_async.methods import LOSCAR, DiLoCo, LocalSGD
from lightning_async.simulation import FixedTimes, UniformTimes
from lightning_async.strategies import LocalSGDStrategy

STEPS = 24


def _flat(module) -> torch.Tensor:
    return torch.cat([p.detach().flatten() for p in module.parameters() if p.requires_grad])


def _buffers(module) -> dict[str, torch.Tensor]:
    return {name: buffer.clone() for name, buffer in module.named_buffers()}


@pytest.mark.parametrize("optimizer", ["sgd", "momentum", "adamw", "adagrad"])
@pytest.mark.parametrize("method", [LOSCAR(0.5, compute_window=2.0), LocalSGD(2.0)], ids=["loscar", "local_sgd"])
def test_one_worker_is_plain_training(classifier, images, quiet, optimizer, method):
    modules = []
    for strategy in (None, LocalSGDStrategy(method, SimulatedCluster(UniformTimes(1), Link(latency=3.0)))):
        arguments = {} if strategy is None else {"strategy": strategy}
        module = classifier(optimizer, dropout=0.0, schedule=True)
        trainer = quiet(max_steps=STEPS, gradient_clip_val=0.8, **arguments)
        trainer.fit(module, images(), images())
        modules.append((module, trainer.optimizers[0].state_dict(), trainer.callback_metrics["val/loss"]))
    (plain, plain_state, plain_loss), (ours, our_state, our_loss) = modules
    assert torch.equal(_flat(plain), _flat(ours))
    for name, buffer in _buffers(plain).items():
        assert torch.equal(buffer, dict(ours.named_buffers())[name]), name
    assert torch.equal(plain_loss, our_loss)
    assert plain_state["param_groups"] == our_state["param_groups"]
    for index, state in plain_state["state"].items():
        for key, value in state.items():
            assert torch.equal(torch.as_tensor(value), torch.as_tensor(our_state["state"][index][key])), key


class _Replicas(Callback):
    """What the replicas are after every step."""

    def __init__(self) -> None:
        self.after: list[torch.Tensor] = []

    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx) -> None:
        self.after.append(trainer.strategy.replicas.clone())


def _endless(loader) -> Iterator:
    while True:
        yield from loader


def _by_hand(classifier, images, method, cluster, optimizer_name, steps) -> Iterator[torch.Tensor]:
    """One module and one optimizer per worker, driven by the schedule; merges as the papers write them."""
    modules = [classifier(optimizer_name).train() for _ in cluster.workers]
    optimizers = [module.configure_optimizers() for module in modules]
    batches = _endless(images())
    d = len(_flat(modules[0]))
    method.bind(d, 4)
    outer = _flat(modules[0])
    outer_optimizer = torch.optim.SGD([outer], lr=0.7, momentum=0.9, nesterov=True)
    made = 0
    for done in method.rounds(cluster):
        count, y = [0] * len(modules), [None] * len(modules)
        for step in done.steps:
            worker, number = step.jobs[0].worker, step.jobs[0].number
            batch = next(batches)
            state = torch.get_rng_state()
            torch.manual_seed(job_seed(5, worker, number))
            loss = modules[worker].loss(batch)
            optimizers[worker].zero_grad()
            loss.backward()
            optimizers[worker].step()
            torch.set_rng_state(state)
            count[worker] += 1
            if count[worker] == done.before[worker]:
                y[worker] = _flat(modules[worker]).clone()
            made += 1
            if step is done.steps[-1]:
                mean = torch.stack(y).mean(0)
                indices = method.indices(done.index, d, cluster.seed)
                where = slice(None) if indices is None else torch.from_numpy(indices)
                for worker, module in enumerate(modules):
                    z = _flat(module).clone()
                    x = z.clone()
                    if isinstance(method, DiLoCo):
                        if worker == 0:
                            outer.grad = outer - mean
                            outer_optimizer.step()
                        x = outer
                    elif getattr(method, "merge", "overwrite") == "corrected":
                        x[where] = (z + (mean - y[worker]))[where]
                    else:
                        x[where] = mean[where]
                    torch.nn.utils.vector_to_parameters(x.clone(), module.parameters())
                for name in _buffers(modules[0]):
                    values = torch.stack([_buffers(module)[name] for module in modules])
                    for module in modules:
                        buffer = dict(module.named_buffers())[name]
                        buffer.copy_(values.mean(0) if buffer.is_floating_point() else values.amax(0))
            yield torch.stack([_flat(module) for module in modules])
            if made == steps:
                return


@pytest.mark.parametrize("optimizer", ["momentum", "adamw"])
@pytest.mark.parametrize(
    "method",
    [
        LOSCAR(0.3, compute_window=4.0),
        LOSCAR(0.3, merge="overwrite", compute_window=4.0),
        LOSCAR(1.0, compute_window=4.0),
        LOSCAR(0.3, overlap=False, compute_window=4.0),
        LocalSGD(4.0),
        DiLoCo(4.0),
    ],
    ids=["loscar", "overwrite", "cocod", "blocking", "local_sgd", "diloco"],
)
def test_replicas_are_loops_written_by_hand(classifier, images, quiet, method, optimizer):
    cluster = SimulatedCluster(FixedTimes([1.0, 1.5, 2.3]), Link(latency=3.0), seed=2)
    seen = _Replicas()
    strategy = LocalSGDStrategy(method, cluster, seed=5)
    quiet(strategy=strategy, max_steps=40, callbacks=[seen]).fit(classifier(optimizer), images())
    for k, replicas in enumerate(_by_hand(classifier, images, method, cluster, optimizer, 40)):
        assert torch.equal(seen.after[k], replicas), f"after step {k}"


def test_workers_read_data_of_their_own(classifier, images, quiet):
    read: list[torch.Tensor] = []

    class Reading(classifier):
        def training_step(self, batch, batch_idx):
            read.append(batch[0])
            return super().training_step(batch, batch_idx)

    partition = Dirichlet(alpha=1.0)
    cluster = SimulatedCluster(FixedTimes([1.0, 2.0]))
    strategy = LocalSGDStrategy(LocalSGD(4.0), cluster, partition=partition, seed=1)
    loader = images(shuffle=True)
    quiet(strategy=strategy, max_steps=12).fit(Reading(), loader)
    shards = partition.assign(loader.dataset, 2, 1)
    workers = [step.jobs[0].worker for step, _ in zip(LocalSGD(4.0).steps(cluster), range(12), strict=False)]
    x = loader.dataset.tensors[0]
    for worker, batch in zip(workers, read, strict=True):
        owned = {tuple(x[index].flatten().tolist()) for index in shards[worker]}
        assert {tuple(image.flatten().tolist()) for image in batch} <= owned


def test_columns_are_the_trainable_parameters_in_the_order_of_the_module(classifier, images, quiet):
    module = classifier("sgd")
    module.network[1].weight.requires_grad_(False)
    strategy = LocalSGDStrategy(LocalSGD(1.0), SimulatedCluster(UniformTimes(3)))
    quiet(strategy=strategy, max_steps=3).fit(module, images())
    assert strategy.replicas.shape == (3, len(_flat(module)))
    torch.testing.assert_close(strategy.replicas.mean(0), _flat(module), rtol=0, atol=1e-7)
