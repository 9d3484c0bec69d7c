"""What a merge does to the replicas: exact rules, conservation of the mean, contraction."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from lightning_async import Link, SimulatedCluster, simulate
from lightning_async.methods import LOSCAR, DiLoCo, LocalSGD, MinibatchSGD
from lightning_async.methods.flat import FlatReplicas
from lightning_async.methods.message import Message
from lightning_async.randomness import derived_seed
from lightning_async.simulation import FixedTimes, UniformTimes


def _noise(worker: int, number: int, shape) -> torch.Tensor:
    generator = torch.Generator().manual_seed(derived_seed(0, "noise", worker, number))
    return torch.randn(shape, generator=generator, dtype=torch.float64)


def _run(method, cluster, *, steps=None, rounds=None, d=30, optimizer=None, noise=1.0):
    """Replicas and average of SGD on ||x||^2 / 2 with noise that depends on (worker, number) alone."""
    x = torch.linspace(-1.0, 1.0, d, dtype=torch.float64)
    optimizer = torch.optim.SGD([x], lr=0.1) if optimizer is None else optimizer([x])
    running = simulate(
        method, cluster, [x], optimizer, lambda job: [x + noise * _noise(job.worker, job.number, d)], max_steps=steps
    )
    for _ in running:
        if rounds is not None and running.local.rounds == rounds:
            break
    return running, x


def _merged(method, before, progress, indices, overlapping):
    """Merge replicas `before`, after `progress` of the overlapping ones; without a snapshot if there are none."""
    flat = FlatReplicas([before[0]], len(before))
    flat.rows[:, : before.shape[1]] = before
    message = Message(flat, indices)
    if overlapping:
        message.snapshot()
    flat.rows[overlapping, : before.shape[1]] += progress[overlapping]
    z = flat.compact().clone()
    message.merge(method)
    return z, flat.compact()


_dtypes = st.sampled_from([torch.float64, torch.float32, torch.bfloat16])


@given(
    n=st.integers(1, 6),
    d=st.integers(1, 40),
    sparsity=st.floats(0, 1),
    dtype=_dtypes,
    seed=st.integers(0, 10**6),
    data=st.data(),
)
@settings(max_examples=150)
def test_the_corrected_merge_conserves_the_mean(n, d, sparsity, dtype, seed, data):
    torch.manual_seed(seed)
    method = LOSCAR(sparsity, compute_window=1.0)
    overlapping = sorted(data.draw(st.sets(st.integers(0, n - 1))))
    before, progress = torch.randn(n, d).to(dtype), torch.randn(n, d).to(dtype)
    z, x = _merged(method, before, progress, method.indices(0, d, seed), overlapping)
    difference = (x.double().mean(0) - z.double().mean(0)).abs().max().item()
    assert difference <= 8 * torch.finfo(dtype).eps * max(1.0, z.double().abs().max().item())


@given(n=st.integers(1, 6), d=st.integers(1, 40), sparsity=st.floats(0, 1), dtype=_dtypes, seed=st.integers(0, 10**6))
@settings(max_examples=100)
def test_a_merge_is_the_rule_on_the_mask_and_nothing_elsewhere(n, d, sparsity, dtype, seed):
    torch.manual_seed(seed)
    y, progress = torch.randn(n, d).to(dtype), torch.randn(n, d).to(dtype)
    for merge, rule in {
        "corrected": lambda mean, y, z: z + (mean - y),
        "overwrite": lambda mean, y, z: mean.expand_as(z),
        0.25: lambda mean, y, z: 0.75 * mean + 0.25 * z,
    }.items():
        method = LOSCAR(sparsity, merge=merge, compute_window=1.0)
        indices = method.indices(0, d, seed)
        z, x = _merged(method, y, progress, indices, list(range(n)))
        exact = rule(y.double().mean(0), y.double(), z.double())
        inside = torch.ones(d, dtype=torch.bool)
        if indices is not None:
            inside = torch.zeros(d, dtype=torch.bool).index_fill(0, torch.from_numpy(indices), True)
        tolerance = 8 * torch.finfo(dtype).eps * max(1.0, exact.abs().max().item())
        assert torch.allclose(x.double()[:, inside], exact[:, inside], rtol=0, atol=tolerance)
        assert torch.equal(x[:, ~inside], z[:, ~inside])


@pytest.mark.parametrize("merge", ["corrected", "overwrite", 0.25])
def test_values_that_are_merged_as_they_are_read_become_what_they_become_after_a_snapshot(merge):
    method = LOSCAR(0.5, merge=merge, overlap=False, compute_window=1.0)
    flat = FlatReplicas([torch.randn(20_001, generator=torch.Generator().manual_seed(0))], 3)
    flat.rows.normal_(generator=torch.Generator().manual_seed(1))
    start, indices = flat.compact().clone(), method.indices(0, 20_001, 2)
    merged, memory = [], []
    for snapshot in (True, False):
        flat.load(start)
        message = Message(flat, indices)
        if snapshot:
            message.snapshot()
        message.merge(method)
        merged.append(flat.compact().clone())
        memory.append(message.memory.numel())
    assert torch.equal(*merged)
    assert memory == [3 * len(indices), 3 * 4096]


@given(keep=st.floats(0, 1), sparsity=st.floats(0, 1), dtype=_dtypes, seed=st.integers(0, 10**6))
@settings(max_examples=100)
def test_a_single_replica_that_has_not_moved_keeps_every_bit(keep, sparsity, dtype, seed):
    before = torch.randn(1, 40, generator=torch.Generator().manual_seed(seed)).to(dtype)
    for merge in (keep, "corrected", "overwrite"):
        method = LOSCAR(sparsity, merge=merge, compute_window=1.0)
        _, x = _merged(method, before, before, method.indices(0, 40, seed), [])
        assert torch.equal(x, before)


def test_a_single_replica_that_has_moved_is_merged_with_what_it_sent():
    before, progress = torch.zeros(1, 4), torch.ones(1, 4)
    _, x = _merged(LOSCAR(1.0, merge=0.25, compute_window=1.0), before, progress, None, [0])
    assert torch.equal(x, torch.full((1, 4), 0.25))


def test_a_single_replica_is_given_to_a_rule_of_somebody_else():
    method = LocalSGD(1.0)
    method.rule = lambda rows, where, mean, y, scratch: rows.add_(mean)
    _, x = _merged(method, torch.ones(1, 4), torch.ones(1, 4), None, [])
    assert torch.equal(x, torch.full((1, 4), 2.0))


def test_overwriting_does_not_conserve_the_mean():
    torch.manual_seed(0)
    y, progress = torch.randn(4, 50), torch.randn(4, 50)
    z, x = _merged(LOSCAR(1.0, merge="overwrite", compute_window=1.0), y, progress, None, [0, 1, 2, 3])
    assert (x.mean(0) - z.mean(0)).abs().max() > 0.1


@pytest.mark.parametrize("sparsity", [0.05, 0.3, 0.8])
def test_without_overlap_the_disagreement_contracts_by_one_minus_p(sparsity):
    torch.manual_seed(1)
    start = torch.randn(6, 200, dtype=torch.float64)
    flat = FlatReplicas([start[0]], 6)
    method = LOSCAR(sparsity, compute_window=1.0)
    factors = []
    for round in range(400):
        flat.load(start)
        before = flat.disagreement()
        Message(flat, method.indices(round, 200, seed=2)).merge(method)
        factors.append(flat.disagreement() / before)
    factors = torch.tensor(factors)
    assert abs(factors.mean() - (1 - sparsity)) <= 4 * factors.std() / len(factors) ** 0.5


@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_one_dense_step_a_round_by_equal_workers_is_minibatch_sgd(momentum):
    def sgd(parameters):
        return torch.optim.SGD(parameters, lr=0.1, momentum=momentum)

    cluster = SimulatedCluster(UniformTimes(4))
    x = torch.linspace(-1.0, 1.0, 30, dtype=torch.float64)
    for _ in simulate(
        MinibatchSGD(), cluster, [x], sgd([x]), lambda job: [x + _noise(job.worker, job.number, 30)], max_steps=25
    ):
        pass
    for method in (LOSCAR(1.0, compute_window=1.0), LocalSGD(1.0)):
        _, average = _run(method, cluster, steps=100, optimizer=sgd)
        torch.testing.assert_close(average, x, rtol=0, atol=1e-6)


@pytest.mark.parametrize("overlap", [True, False])
def test_without_communication_replicas_are_independent_runs(overlap):
    cluster = SimulatedCluster(FixedTimes([1.0, 2.0, 3.0]), Link(latency=4.0))
    running, _ = _run(LOSCAR(0.0, overlap=overlap, compute_window=4.0), cluster, rounds=5)
    assert running.local.num_bytes == 0.0
    for worker, replica in enumerate(running.replicas):
        x = torch.linspace(-1.0, 1.0, 30, dtype=torch.float64)
        for number in range({0: 20, 1: 10, 2: 5}[worker]):
            x -= 0.1 * (x + _noise(worker, number, 30))
        torch.testing.assert_close(replica, x)


def test_dense_overwriting_throws_the_overlap_away():
    cluster = SimulatedCluster(FixedTimes([1.0, 2.0]), Link(latency=6.0))
    _, overwritten = _run(LOSCAR(1.0, "overwrite", compute_window=4.0), cluster, rounds=4, noise=0.0)
    _, blocking = _run(LOSCAR(1.0, overlap=False, compute_window=4.0), cluster, rounds=4, noise=0.0)
    torch.testing.assert_close(overwritten, blocking, rtol=0, atol=1e-14)


def test_dense_rounds_with_overlap_are_the_formula_applied_by_hand():
    cluster = SimulatedCluster(FixedTimes([1.0, 2.0, 5.0]), Link(latency=3.0))
    running, average = _run(LOSCAR(1.0, compute_window=4.0), cluster, rounds=3)
    replicas = [torch.linspace(-1.0, 1.0, 30, dtype=torch.float64) for _ in range(3)]
    numbers = [0, 0, 0]

    def step(worker: int) -> None:
        x = replicas[worker]
        x -= 0.1 * (x + _noise(worker, numbers[worker], 30))
        numbers[worker] += 1

    for _ in range(3):
        for worker, count in enumerate((4, 2, 1)):
            for _ in range(count):
                step(worker)
        y = torch.stack(replicas)
        for worker, count in enumerate((3, 1, 0)):
            for _ in range(count):
                step(worker)
            replicas[worker] = replicas[worker] + (y.mean(0) - y[worker])
    torch.testing.assert_close(running.replicas, torch.stack(replicas), rtol=0, atol=1e-14)
    torch.testing.assert_close(average, torch.stack(replicas).mean(0), rtol=0, atol=1e-14)


def test_the_coordinates_of_a_given_mask_are_exchanged():
    def mask(round: int, d: int) -> list[int]:
        return [(7 * round) % d, (7 * round + 3) % d]

    cluster = SimulatedCluster(UniformTimes(3), Link(latency=1.0))
    running, _ = _run(LOSCAR(0.0, overlap=False, compute_window=2.0, mask=mask), cluster, rounds=2)
    spread = running.replicas.std(0)
    exchanged = spread < 1e-12
    assert exchanged[[7, 10]].all()
    assert exchanged.sum() == 2


@pytest.mark.parametrize(
    ("indices", "error", "match"),
    [
        ([0, 0], ValueError, "twice"),
        ([30], ValueError, "from 0 to 29"),
        ([-1], ValueError, "from 0 to 29"),
        ([0.5], TypeError, "integers"),
        ([[1], [2]], TypeError, "one-dimensional"),
        ([[1], [2, 3]], TypeError, r"mask\(0, 30\) must return a one-dimensional .*, got \[\[1\], \[2, 3\]\]"),
        (None, TypeError, "one-dimensional"),
    ],
)
def test_a_mask_that_is_not_a_set_of_coordinates_is_refused(indices, error, match):
    cluster = SimulatedCluster(UniformTimes(3))
    with pytest.raises(error, match=match):
        _run(LOSCAR(0.5, compute_window=2.0, mask=lambda round, d: indices), cluster, steps=6)


def test_a_mask_that_changes_its_mind_is_refused():
    sizes = iter(range(1, 30))
    method = LOSCAR(0.5, compute_window=2.0, mask=lambda round, d: range(next(sizes)))
    with pytest.raises(ValueError, match=r"mask\(0, 30\) returned \d coordinates, but 1 before"):
        _run(method, SimulatedCluster(UniformTimes(3)), steps=6)


def test_local_sgd_makes_all_replicas_their_mean_to_the_last_bit():
    cluster = SimulatedCluster(FixedTimes([1.0, 2.0, 3.0]))
    running, average = _run(LocalSGD(6.0), cluster, rounds=3)
    assert (running.replicas == running.replicas[0]).all()
    torch.testing.assert_close(average, running.replicas[0], rtol=1e-15, atol=0)


def test_diloco_is_nesterov_sgd_on_the_mean_of_the_replicas():
    cluster = SimulatedCluster(UniformTimes(2))
    running, _ = _run(DiLoCo(3.0, outer_lr=0.6, outer_momentum=0.8), cluster, rounds=4)
    outer = torch.linspace(-1.0, 1.0, 30, dtype=torch.float64)
    optimizer = torch.optim.SGD([outer], lr=0.6, momentum=0.8, nesterov=True)
    for round in range(4):
        ends = []
        for worker in range(2):
            x = outer.clone()
            for number in range(3 * round, 3 * round + 3):
                x -= 0.1 * (x + _noise(worker, number, 30))
            ends.append(x)
        outer.grad = outer - torch.stack(ends).mean(0)
        optimizer.step()
    torch.testing.assert_close(running.replicas, outer.expand(2, -1), rtol=0, atol=1e-13)


def test_bytes_are_counted_for_all_workers_and_completed_rounds():
    cluster = SimulatedCluster(UniformTimes(5), Link(latency=1.0))
    running, _ = _run(LOSCAR(0.5, compute_window=2.0), cluster, rounds=3, d=30)
    assert running.local.round_bytes == 5 * 15 * 8
    assert running.local.num_bytes == 3 * running.local.round_bytes
    metrics = running.local.metrics()
    assert metrics["bits_sent"] == 8 * running.local.num_bytes
    assert metrics["disagreement"] == pytest.approx((running.replicas - running.replicas.mean(0)).square().sum().item())
    assert (metrics["time/hidden"], metrics["time/idle"], metrics["utilization"]) == (3.0, 0.0, 1.0)
