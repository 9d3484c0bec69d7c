"""The rounds of `GradientCoding`: who is in time, which partitions are needed, what is known of stragglers."""

from itertools import islice

import numpy as np
import pytest

from lightning_async import Link, SimulatedCluster
from lightning_async.coding import allocate_bits
from lightning_async.methods import GradientCoding
from lightning_async.methods.code_design import gaussian_crest_factor
from lightning_async.methods.straggling import CountedStraggling
from lightning_async.simulation import BernoulliStragglers, FixedTimes, HalfNormalNoise, RandomTimes

P = [0.1, 0.3, 0.5, 0.7]
ROUNDS = 60


def coding(code="interval", bits=20, quantizer="dither", decoder="own", partitions=6, **arguments) -> GradientCoding:
    return GradientCoding(code, bits, quantizer, decoder, partitions, **arguments)


def rounds(method, times, count=ROUNDS, seed=0, **arguments):
    return list(islice(method.steps(SimulatedCluster(times, seed=seed, **arguments)), count))


@pytest.mark.parametrize("code", ["interval", "alias", "spread", "osgc", "uncoded", "sgc", "bgc", "ehd", "cyclic"])
def test_jobs_are_the_partitions_that_somebody_in_time_holds(code: str) -> None:
    times = BernoulliStragglers(P)
    for step in rounds(coding(code), times):
        in_time = [np.isfinite(times.duration(worker, step.index)) for worker in range(4)]
        assert step.arrived.tolist() == [a and bool(s) for a, s in zip(in_time, step.plan.sends, strict=True)]
        held = (step.plan.code.assignment[step.arrived] != 0).any(axis=0)
        assert step.partitions == tuple(np.flatnonzero(held))
        assert step.discarded == step.plan.sends.sum() - step.arrived.sum()


def test_some_rounds_have_no_job() -> None:
    empty = [step for step in rounds(coding(), BernoulliStragglers([0.9] * 4)) if not step.jobs]
    assert 0 < len(empty) < ROUNDS


def test_a_round_lasts_the_deadline_whoever_is_in_time() -> None:
    steps = rounds(coding(deadline=2.5), BernoulliStragglers(P, on_time=1.0))
    assert [step.time for step in steps] == [2.5 * (k + 1) for k in range(ROUNDS)]
    assert {delay for step in steps for delay in step.delays} == {0}


def test_all_partitions_are_jobs_when_the_error_is_measured() -> None:
    steps = rounds(coding(measure_error=True), BernoulliStragglers(P))
    assert {step.partitions for step in steps} == {tuple(range(6))}
    assert len({step.arrived.tobytes() for step in steps}) > 3


def test_a_job_of_a_partition_does_not_depend_on_who_is_in_time() -> None:
    jobs = {}
    for seed in range(10):
        for step in rounds(coding(), BernoulliStragglers(P), count=5, seed=seed):
            for partition, job in zip(step.partitions, step.jobs, strict=True):
                assert jobs.setdefault((step.index, partition), job) == job
    assert len({(job.worker, job.number) for job in jobs.values()}) == len(jobs)


def test_partitions_own_the_data_only_if_data_have_owners() -> None:
    cluster = SimulatedCluster(BernoulliStragglers(P))
    for sharded in (False, True):
        step = next(step for step in coding().steps(cluster.start(sharded=sharded)) if step.jobs)
        assert [job.shard for job in step.jobs] == (list(step.partitions) if sharded else [None] * len(step.jobs))


def test_probabilities_that_change_with_the_round_give_another_code_in_every_round() -> None:
    def p(round: int) -> np.ndarray:
        return np.roll(P, round)

    for step in rounds(coding(bits=12), BernoulliStragglers(p), count=9):
        bits = allocate_bits(p(step.index), 12, kappa=gaussian_crest_factor(512))
        assert step.plan.bits.tolist() == bits.tolist()
        assert step.plan.p.tolist() == np.where(bits > 0, p(step.index), 1.0).tolist()


def test_of_times_that_never_change_it_is_known_who_is_late() -> None:
    step = rounds(coding(deadline=2.0), FixedTimes([1.0, 2.0, 2.1, 5.0]), count=1)[0]
    assert step.plan.p.tolist() == [0.0, 0.0, 1.0, 1.0]
    assert step.arrived.tolist() == [True, True, False, False]
    assert step.partitions == tuple(range(6))


def test_messages_take_their_part_of_the_deadline() -> None:
    step = rounds(
        coding(bits=[5] * 4, deadline=2.0), FixedTimes([1.0, 1.8, 1.0, 1.0]), count=1, link=Link(latency=0.2)
    )[0]
    assert step.plan.p.tolist() == [0.0, 1.0, 0.0, 0.0]


def test_counted_probabilities_approach_those_of_the_model() -> None:
    method = coding(counted=True, replan=500)
    last = rounds(method, BernoulliStragglers(P), count=2001)[-1]
    deviation = np.sqrt(np.array(P) * (1 - np.array(P)) / 2000)
    assert (np.abs(last.plan.p - P) < 4 * deviation).all()


def test_other_models_of_worker_times_are_counted_and_planned_anew_every_so_many_rounds() -> None:
    times = HalfNormalNoise(FixedTimes([0.9, 0.95, 1.0, 1.2]), std=0.2)
    steps = rounds(coding(replan=16), times, count=64)
    changes = [k for k in range(1, 64) if steps[k].plan is not steps[k - 1].plan]
    assert changes == [1, 2, 4, 8, 16, 32, 48]
    missed = np.array([step.arrived for step in steps[:32]])
    assert ((steps[32].plan.p < 1) & (steps[32].plan.p > 0)).all()
    held = steps[32].plan.sends & np.array([s.plan.sends for s in steps[:32]]).all(axis=0)
    np.testing.assert_allclose(steps[32].plan.p[held], ((~missed).sum(axis=0)[held] + 0.5) / 33)


def test_estimates_are_never_certain() -> None:
    counted = CountedStraggling(2, period=4)
    for k in range(100):
        assert ((counted.probabilities(k) > 0) & (counted.probabilities(k) < 1)).all()
        counted.observe(np.array([True, False]))


def test_the_same_seed_gives_the_same_rounds_and_another_one_others() -> None:
    times = RandomTimes(4, "exponential", mean=[0.3, 0.5, 0.8, 1.0])
    method = coding()
    first, second, other = (rounds(method, times, seed=seed) for seed in (1, 1, 2))
    assert first == second
    assert first != other


def test_the_size_of_a_small_model_enters_kappa() -> None:
    kappas = []
    for size in (4, 10_000):
        method = coding()
        method.bind(size, 4.0)
        kappas.append(method.metrics(rounds(method, BernoulliStragglers(P), count=1)[0])["kappa"])
    assert kappas == [gaussian_crest_factor(4), gaussian_crest_factor(512)]


def test_the_norm_scaled_quantiser_needs_the_size_of_the_model() -> None:
    cluster = SimulatedCluster(BernoulliStragglers(P))
    with pytest.raises(RuntimeError, match=r"bind\(num_coordinates"):
        next(coding(quantizer="norm").steps(cluster))
    next(coding(quantizer="norm", kappa=100.0).steps(cluster))


@pytest.mark.parametrize(
    ("arguments", "times", "message"),
    [
        ({"bits": [4, 4]}, BernoulliStragglers(P), "2 entries for 4 workers"),
        ({"bits": 1, "quantizer": "qsgd"}, BernoulliStragglers(P), "leaves no worker the 2 bits"),
        ({"bits": 3, "code": "sgc", "quantizer": "qsgd"}, BernoulliStragglers(P), "to at least 8"),
        ({"bits": 3, "code": "uncoded"}, BernoulliStragglers(P), r"gives workers \[3\] less .* at least 4"),
        ({"code": "alias", "partitions": 2}, BernoulliStragglers(P), "partitions"),
        ({"cap": 1.0}, BernoulliStragglers(P), "at least 1.5"),
        ({"deadline": 0.5}, BernoulliStragglers(P), "nobody ever arrives .* needs 1 of logical time"),
        ({"deadline": 0.5}, FixedTimes([2.0, 0.75]), "nobody ever arrives .* needs 0.75 of logical time"),
        ({}, BernoulliStragglers([1.0, 1.0]), "straggles with probability 1"),
    ],
)
def test_what_cannot_be_is_refused_before_the_first_round(arguments, times, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        coding(**arguments).steps(SimulatedCluster(times))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"code": "magic"}, "'interval'"),
        ({"quantizer": "magic"}, "'dither'"),
        ({"decoder": "magic"}, "'set_aware'"),
        ({"decoder": "set_aware", "code": "ehd"}, "decoder='own', or one of the codes interval"),
        ({"second": "lmmse", "code": "survivors"}, "second='own'"),
        ({"bits": 0}, "bits"),
        ({"bits": [0, 0]}, "not all 0"),
        ({"bits": [1, 4], "quantizer": "qsgd"}, "2 to 16 .* that of worker 0 is wrong"),
        ({"bits": [4, 17]}, "that of worker 1 is wrong"),
        ({"partitions": 0}, "partitions"),
        ({"deadline": 0.0}, "deadline"),
        ({"zmax": 17}, "zmax"),
        ({"kappa": -1.0}, "kappa"),
        ({"rho": -0.5}, r"\[-0.2, 1\] for 6 partitions"),
        ({"allocation": "magic"}, "'exact'"),
        ({"replan": 0}, "replan"),
        ({"strength": float("inf")}, "strength must be a finite number above 0, got inf"),
        ({"bits": np.array([4, 17])}, "that of worker 1 is wrong"),
    ],
)
def test_wrong_arguments_are_refused_at_once(arguments, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        coding(**arguments)


@pytest.mark.parametrize(
    "bits", [[4, 3, 0], np.array([4, 3, 0]), np.array([4, 3, 0], dtype=np.uint8), list(np.array([4, 3, 0]))]
)
def test_bits_of_each_worker_may_be_an_array(bits) -> None:
    assert coding(bits=bits).bits == (4, 3, 0)


def test_an_array_that_does_not_hold_whole_numbers_is_refused() -> None:
    with pytest.raises(TypeError, match=r"bits\[0\] must be an integer of at least 0, got 4.0"):
        coding(bits=np.array([4.0, 3.0]))
