"""What `GradientCoding` decodes: bias and error against formulas, lost messages, two estimates, state."""

import numpy as np
import pytest
import torch

from lightning_async import SimulatedCluster, simulate
from lightning_async.coding import code_error, make_quantizer, message_seed, relative_variance
from lightning_async.methods import GradientCoding
from lightning_async.optim import TwoTrackAdam
from lightning_async.simulation import BernoulliStragglers

P = np.array([0.1, 0.25, 0.4, 0.6])
K, D = 5, 48
UNBIASED = ("interval", "alias", "spread", "osgc", "uncoded", "sgc")


@pytest.fixture
def targets() -> torch.Tensor:
    """Minima of K quadratics, with something in common."""
    generator = torch.Generator().manual_seed(5)
    return torch.randn(K, D, generator=generator, dtype=torch.float64) + 0.5


def coding(code="interval", bits=16, quantizer="dither", decoder="own", **arguments) -> GradientCoding:
    return GradientCoding(code, bits, quantizer, decoder, K, **arguments)


class Rounds:
    """Directions at the fixed point 0 of f_j(x) = |x - target_j|^2 / 2, whose gradients are minus the targets."""

    def __init__(self, method, targets, count, p=P, seed=3, gradient=None) -> None:
        x = torch.zeros(D, dtype=targets.dtype)
        self.optimizer = torch.optim.SGD([x], lr=0.0)
        gradient = gradient or (lambda job: [x - targets[job.shard]])
        cluster = SimulatedCluster(BernoulliStragglers(p), seed=seed)
        self.steps, self.metrics, directions = [], [], []
        self.running = simulate(method, cluster, [x], self.optimizer, gradient, max_steps=count, sharded=True)
        for step in self.running:
            self.steps.append(step)
            self.metrics.append(method.metrics(step))
            directions.append(torch.zeros_like(x) if x.grad is None else x.grad)
            x.grad = None
        self.directions = torch.stack(directions)


def assert_mean(samples, expected: float, errors: float = 4.0) -> None:
    samples = np.asarray(samples)
    standard_error = samples.std(ddof=1) / np.sqrt(len(samples))
    assert abs(samples.mean() - expected) <= errors * standard_error + 1e-12


@pytest.mark.parametrize(
    ("code", "quantizer"),
    [*((code, "dither") for code in UNBIASED), *(("interval", name) for name in ("rounding", "qsgd", "norm", "none"))],
)
def test_unbiased_within_four_standard_errors(code: str, quantizer: str, targets) -> None:
    rounds = Rounds(coding(code, quantizer=quantizer), targets, 250)
    mean = -targets.mean(dim=0)
    for direction in (mean, torch.linspace(-1, 1, D, dtype=torch.float64)):
        assert_mean((rounds.directions @ direction).tolist(), float(mean @ direction))


@pytest.mark.parametrize("rho", [None, 0.3])
def test_set_aware_decoding_is_unbiased_with_an_estimated_and_a_given_correlation(rho, targets) -> None:
    rounds = Rounds(coding(decoder="set_aware", rho=rho), targets, 300)
    mean = -targets.mean(dim=0)
    assert_mean((rounds.directions @ mean).tolist(), float(mean @ mean))


@pytest.mark.parametrize("code", ["interval", "spread", "uncoded", "ehd", "cyclic", "survivors"])
def test_the_error_is_that_of_the_formula_within_four_standard_errors(code: str, targets) -> None:
    """With messages as they are; dither has the variance of each message's own kappa."""
    rounds = Rounds(coding(code, quantizer="none"), targets, 400)
    gram = (targets @ targets.T).numpy()
    plan = rounds.steps[0].plan
    expected = code_error(plan.code, plan.p, np.where(plan.sends, 0.0, np.inf), gram) / K**2
    assert_mean((rounds.directions + targets.mean(dim=0)).square().sum(dim=1).tolist(), expected)


def test_the_error_of_quantised_messages_is_that_of_the_formula(targets) -> None:
    rounds = Rounds(coding(bits=10), targets, 400)
    plan = rounds.steps[0].plan
    quantizer = make_quantizer("dither")
    messages = torch.from_numpy(plan.code.assignment) @ targets
    kappa = np.array([quantizer.kappa(message) for message in messages])
    q = relative_variance(plan.bits, kappa, "dither")
    expected = code_error(plan.code, plan.p, q, (targets @ targets.T).numpy()) / K**2
    assert_mean((rounds.directions + targets.mean(dim=0)).square().sum(dim=1).tolist(), expected)


def test_a_decoder_that_knows_who_arrived_has_a_smaller_error(targets) -> None:
    errors = []
    for decoder in ("own", "set_aware", "lmmse"):
        rounds = Rounds(coding(decoder=decoder, measure_error=True), targets, 200)
        errors.append(np.mean([row.get("relative_error", 1.0) for row in rounds.metrics]))
    assert errors[0] > errors[1] > errors[2]


@pytest.mark.parametrize("code", [*UNBIASED, "ehd", "frc", "cyclic", "survivors"])
def test_without_stragglers_and_quantiser_every_code_gives_the_mean(code: str, targets) -> None:
    rounds = Rounds(coding(code, bits=4, quantizer="none"), targets, 3, p=np.zeros(4))
    torch.testing.assert_close(rounds.directions, -targets.mean(dim=0).expand(3, D), rtol=0, atol=1e-12)


def test_when_nothing_arrives_the_iterate_stays_and_the_optimizer_is_not_called(targets) -> None:
    x = torch.zeros(D, dtype=torch.float64)
    optimizer = torch.optim.Adam([x], lr=0.1)
    cluster = SimulatedCluster(BernoulliStragglers([0.8, 0.9, 0.9, 0.9]), seed=1)
    method, calls, before = coding(), 0, x.clone()
    for step in simulate(method, cluster, [x], optimizer, lambda job: [x - targets[0]], max_steps=40):
        assert torch.equal(x, before) == (not step.arrived.any())
        calls += int(step.arrived.any())
        before = x.clone()
    assert 0 < calls < 40
    assert optimizer.state[x]["step"] == calls


def test_a_gradient_that_is_not_finite_takes_every_message_with_it_that_contains_it(targets) -> None:
    def gradient(job):
        value = -targets[job.shard]
        return [value * float("nan") if job.shard == 2 else value.clone()]

    clean, faulty = (Rounds(coding(bits=24), targets, 20, gradient=g) for g in (None, gradient))
    assert faulty.running.server.nonfinite == sum(2 in step.partitions for step in faulty.steps)
    for one, other in zip(clean.steps, faulty.steps, strict=True):
        assert one == other
    plan = clean.steps[0].plan
    assert plan.sends.sum() > (plan.sends & (plan.code.assignment[:, 2] == 0)).sum() > 0
    for step, row in zip(faulty.steps, faulty.metrics, strict=True):
        assert row["arrived"] == (step.arrived & (plan.code.assignment[:, 2] == 0)).sum()


def test_bits_are_those_on_the_wire_of_the_messages_that_arrived(targets) -> None:
    rounds = Rounds(coding(bits=[3, 5, 0, 7], quantizer="rounding", bucket=20), targets, 30)
    total = 0
    for step, row in zip(rounds.steps, rounds.metrics, strict=True):
        # D coordinates of z bits in whole bytes, and two float64 scales for each of three buckets
        bits = sum(8 * -(-D * z // 8) + 6 * 64 for z, there in zip([3, 5, 0, 7], step.arrived, strict=True) if there)
        total += bits
        assert (row["bits/step"], row["bits_sent"]) == (bits, total)


def test_no_two_workers_and_no_two_rounds_share_their_randomness(targets) -> None:
    same = torch.ones(K, 1, dtype=torch.float64) * targets[:1]
    rounds = Rounds(coding("uncoded", bits=8), same, 30, p=np.zeros(4))
    assert len({tuple(direction.tolist()) for direction in rounds.directions}) == 30
    assert len({message_seed(0, k, worker) for k in range(30) for worker in range(4)}) == 120


def test_computing_all_partitions_changes_no_direction(targets) -> None:
    lazy, measured = (Rounds(coding(measure_error=m, decoder="set_aware"), targets, 40) for m in (False, True))
    assert torch.equal(lazy.directions, measured.directions)


def test_the_measured_error_is_that_of_the_direction(targets) -> None:
    rounds = Rounds(coding(measure_error=True), targets, 30)
    full = -targets.mean(dim=0)
    for direction, row in zip(rounds.directions, rounds.metrics, strict=True):
        if row["arrived"]:
            expected = ((direction - full).square().sum() / full.square().sum()).item()
            assert row["relative_error"] == pytest.approx(expected, rel=1e-9)
        else:
            assert "relative_error" not in row


def test_kappa_and_rho_are_measured(targets) -> None:
    wide = torch.randn(K, 4096, generator=torch.Generator().manual_seed(0)) + 1.0  # correlation 1/2
    x = torch.zeros(4096)
    method = coding(decoder="set_aware", bits=24)
    cluster = SimulatedCluster(BernoulliStragglers(P), seed=0)
    optimizer = torch.optim.SGD([x], lr=0.0)
    for step in simulate(method, cluster, [x], optimizer, lambda job: [wide[job.shard].clone()], 60, sharded=True):
        metrics = method.metrics(step)
    quantizer = make_quantizer("dither")
    kappas = [quantizer.kappa(torch.from_numpy(row).float() @ wide) for row in step.plan.code.assignment]
    assert min(kappas) <= metrics["kappa"] <= max(kappas)
    assert metrics["rho"] == pytest.approx(0.5, abs=0.05)


def test_the_schedule_does_not_depend_on_the_gradients(targets) -> None:
    sparse = torch.zeros_like(targets)
    sparse[:, 0] = 100.0
    one, other = (Rounds(coding(decoder="lmmse"), values, 30) for values in (targets, sparse))
    assert one.steps == other.steps
    assert all(a.plan is b.plan for a, b in zip(one.steps, other.steps, strict=True))


def test_the_second_estimate_goes_to_the_second_moment(targets) -> None:
    x = torch.zeros(D, dtype=torch.float64)
    optimizer = TwoTrackAdam([x], lr=0.01)
    seen = []
    give, optimizer.set_second_gradient = optimizer.set_second_gradient, lambda g: (seen.append(g), give(g))
    method, plain = coding(second="min_mse"), coding()
    cluster = SimulatedCluster(BernoulliStragglers(P), seed=0)
    for step in simulate(method, cluster, [x], optimizer, lambda job: [-targets[job.shard]], 5, sharded=True):
        if step.arrived.any():
            (second,) = seen.pop()
            torch.testing.assert_close(second / x.grad, (second / x.grad)[:1].expand(D))
            assert 0.0 < (second / x.grad)[0] < 1.0
    assert not seen
    assert plain.second is None


def test_a_second_estimate_needs_an_optimizer_that_takes_it(targets) -> None:
    with pytest.raises(TypeError, match="use TwoTrackAdam"):
        Rounds(coding(second="lmmse"), targets, 20)


def test_parameters_that_take_no_part_and_other_types_come_through() -> None:
    parameters = [torch.zeros(3), torch.zeros(2, 2, dtype=torch.bfloat16), torch.zeros(4), torch.zeros(())]

    def gradient(job):
        middle = None if job.shard == 0 else torch.full((2, 2), 2.0, dtype=torch.bfloat16)
        return [torch.full((3,), float(job.shard)), middle, None, torch.tensor(1.0)]

    method = GradientCoding("uncoded", 2, "none", "own", partitions=2)
    optimizer = torch.optim.SGD(parameters, lr=1.0)
    next(
        simulate(
            method, SimulatedCluster(BernoulliStragglers([0.0, 0.0])), parameters, optimizer, gradient, sharded=True
        )
    )
    assert parameters[2].grad is None
    assert [p.tolist() for p in parameters] == [[-0.5] * 3, [[-1.0] * 2] * 2, [0.0] * 4, -1.0]
    assert parameters[1].dtype == torch.bfloat16
