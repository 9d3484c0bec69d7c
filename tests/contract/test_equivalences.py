"""Methods that are each other, or plain training, in special cases."""

import pytest
import torch
from contract_battery.classifier import Classifier
from contract_battery.images import loader
from contract_battery.running import Journal, differences, outcome, quiet, uneven_cluster

from lightning_async import ParameterServerStrategy, SimulatedCluster
from lightning_async.methods import ASGD, MinibatchSGD, RennalaSGD, RingmasterASGD
from lightning_async.simulation import FixedTimes, HalfNormalNoise, UniformTimes

WORKERS = 4


def train(method, cluster, batch_size=2, optimizer="momentum", size=16, **arguments):
    module, journal = Classifier(optimizer, norm=False), Journal()
    strategy = {} if method is None else {"strategy": ParameterServerStrategy(method, cluster, **arguments)}
    trainer = quiet(max_steps=9, callbacks=[journal], **strategy)
    trainer.fit(module, loader(batch_size=batch_size, size=size))
    return trainer, journal


@pytest.mark.parametrize("optimizer", ["sgd", "momentum", "adamw"])
@pytest.mark.parametrize("method", [MinibatchSGD, lambda: RennalaSGD(batch=WORKERS)], ids=["minibatch", "rennala"])
def test_averaging_n_gradients_is_training_on_the_concatenated_batch(method, optimizer: str) -> None:
    ours, _ = train(method(), uneven_cluster(), batch_size=2, optimizer=optimizer)
    plain, _ = train(None, None, batch_size=2 * WORKERS, optimizer=optimizer)
    for one, other in zip(ours.lightning_module.parameters(), plain.lightning_module.parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-6 if optimizer != "adamw" else 1e-5)


@pytest.mark.parametrize("stops", [True, False])
@pytest.mark.parametrize("threshold", [WORKERS, WORKERS + 5])
def test_with_equal_times_and_a_large_threshold_ringmaster_is_asgd(threshold: int, stops: bool) -> None:
    cluster = SimulatedCluster(UniformTimes(WORKERS))
    ours, _ = train(RingmasterASGD(threshold, stops), cluster)
    asgd, _ = train(ASGD(), cluster)
    assert differences(outcome(asgd), outcome(ours)) == []


def test_the_seed_of_the_cluster_gives_all_methods_the_same_worker_times() -> None:
    times = HalfNormalNoise(FixedTimes([1.0, 2.0, 3.0]), scale=0.5)
    durations = []
    for method in (ASGD(), RennalaSGD(batch=2), RingmasterASGD(threshold=2)):
        trainer, journal = train(method, SimulatedCluster(times, seed=4))
        cluster = trainer.strategy.server.cluster
        jobs = [job for _, step in journal.steps.values() for job in step.jobs]
        durations.append({(job.worker, job.number): cluster.worker_time(job) for job in jobs})
    for one in durations:
        for other in durations:
            common = one.keys() & other.keys()
            assert len(common) >= 3
            assert all(one[key] == other[key] for key in common)
