"""`GradientCoding` in a Trainer: equal to mini-batch training, empty rounds, resuming, owners of data, logs."""

from itertools import islice
from pathlib import Path

import pytest
import torch
from lightning.pytorch import Callback
from lightning.pytorch.loggers import CSVLogger

from lightning_async import ParameterServerStrategy, SimulatedCluster
from lightning_async.callbacks import LogicalTimeMonitor
from lightning_async.data import Shards
from lightning_async.methods import GradientCoding, MinibatchSGD
from lightning_async.optim import TwoTrackAdam
from lightning_async.simulation import BernoulliStragglers, RandomTimes, UniformTimes

STEPS = 14
OFTEN_LATE = BernoulliStragglers([0.7, 0.8, 0.9])


class _Journal(Callback):
    """What every step left behind."""

    def __init__(self, saves=None) -> None:
        self.parameters, self.metrics, self.steps, self.saves = {}, {}, {}, saves

    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx) -> None:
        k, strategy = trainer.global_step, trainer.strategy
        self.parameters[k] = [p.detach().clone() for p in pl_module.parameters()]
        self.metrics[k] = strategy.method.metrics(strategy.last_step)
        self.steps[k] = strategy.last_step
        assert len(batch) == len(strategy.last_step.jobs)
        if self.saves is not None:
            trainer.save_checkpoint(self.saves / f"{k}.ckpt")


def strategy_of(times, code="interval", bits=15, quantizer="dither", decoder="own", partitions=4, **arguments):
    options = {name: arguments.pop(name) for name in ("partition", "optimizer") if name in arguments}
    method = GradientCoding(code, bits, quantizer, decoder, partitions, **arguments)
    return ParameterServerStrategy(method, SimulatedCluster(times, seed=4), seed=1, **options)


@pytest.mark.parametrize("code", ["interval", "uncoded", "sgc", "ehd", "cyclic", "survivors"])
@pytest.mark.parametrize("optimizer", ["sgd", "momentum"])
def test_without_stragglers_and_quantiser_it_is_minibatch_training(classifier, images, quiet, code, optimizer) -> None:
    cluster = SimulatedCluster(UniformTimes(4))
    modules = []
    for method in (MinibatchSGD(), GradientCoding(code, 4, "none", "own", partitions=4)):
        modules.append(classifier(optimizer, dropout=0.0))
        quiet(strategy=ParameterServerStrategy(method, cluster), max_steps=STEPS).fit(modules[-1], images())
    for one, other in zip(*(module.parameters() for module in modules), strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-6)


def test_rounds_in_which_nothing_arrives_count_and_draw_nothing(classifier, images, quiet) -> None:
    journal, module = _Journal(), classifier(schedule=True)
    seen = []
    module.on_after_batch_transfer = lambda batch, index: (seen.append(batch[0].sum().item()), batch)[1]
    trainer = quiet(strategy=strategy_of(OFTEN_LATE), max_steps=STEPS, callbacks=[journal])
    trainer.fit(module, images())
    empty = [k for k, step in journal.steps.items() if not step.jobs]
    assert len(empty) > 2
    assert trainer.global_step == STEPS == trainer.strategy.logical_time
    assert trainer.lr_scheduler_configs[0].scheduler.last_epoch == STEPS
    before = [p.detach() for p in classifier().parameters()]
    for k in journal.steps:
        same = all(map(torch.equal, journal.parameters[k], journal.parameters.get(k - 1, before)))
        assert same == (k in empty)
    drawn = sum(len(step.jobs) for step in journal.steps.values())
    stream = [x.sum().item() for x, _ in images()]
    assert seen == [stream[i % len(stream)] for i in range(drawn)]


RESUMED = {
    "set-aware": {"times": OFTEN_LATE, "decoder": "set_aware"},
    "two-track": {
        "times": OFTEN_LATE,
        "second": "lmmse",
        "optimizer": lambda parameters: TwoTrackAdam(parameters, clip_ratio=1.0),
    },
    "counted": {"times": RandomTimes(3, "exponential", mean=[0.5, 1.0, 1.5]), "replan": 4, "measure_error": True},
    "owners": {"times": OFTEN_LATE, "partition": Shards(per_worker=1), "partitions": 5, "code": "sgc"},
}


@pytest.mark.parametrize("name", RESUMED)
def test_a_run_continues_bit_for_bit_from_every_step(classifier, images, quiet, tmp_path, name) -> None:
    def run(saves=None, **arguments):
        journal = _Journal(saves)
        callbacks = [journal, LogicalTimeMonitor()]
        trainer = quiet(strategy=strategy_of(**RESUMED[name]), max_steps=STEPS, callbacks=callbacks)
        trainer.fit(classifier(), images(shuffle=True), **arguments)
        return journal, trainer.optimizers[0].state_dict()

    whole, optimizer = run(tmp_path)
    for since in range(1, STEPS):
        resumed, at_the_end = run(ckpt_path=tmp_path / f"{since}.ckpt")
        assert sorted(resumed.steps) == list(range(since + 1, STEPS + 1))
        for k, step in resumed.steps.items():
            assert step == whole.steps[k]
            assert resumed.metrics[k] == whole.metrics[k]
            assert all(map(torch.equal, resumed.parameters[k], whole.parameters[k]))
        for one, other in zip(optimizer["state"].values(), at_the_end["state"].values(), strict=True):
            assert all(torch.equal(torch.as_tensor(one[key]), torch.as_tensor(other[key])) for key in one)


def test_a_checkpoint_loads_with_default_arguments(classifier, images, quiet, tmp_path) -> None:
    trainer = quiet(strategy=strategy_of(OFTEN_LATE, decoder="lmmse"), max_steps=5)
    trainer.fit(classifier(), images())
    trainer.save_checkpoint(tmp_path / "a.ckpt")
    state = torch.load(tmp_path / "a.ckpt")["lightning_async"]["server"]["method"]
    assert state["bits_sent"] > 0


def test_every_partition_draws_from_its_own_data(classifier, images, quiet) -> None:
    owned = Shards(per_worker=1)
    strategy = strategy_of(BernoulliStragglers([0.2, 0.3]), partition=owned, partitions=6)
    module, drawn = classifier(dropout=0.0), []
    module.on_after_batch_transfer = lambda batch, index: (drawn.append(batch[0].flatten(1)), batch)[1]
    quiet(strategy=strategy, max_steps=6).fit(module, images())
    data = images().dataset
    shards = [data.tensors[0][shard.tolist()].flatten(1) for shard in owned.assign(data, 6, 1)]
    cluster = strategy.cluster.start(sharded=True)
    owners = [job.shard for step in islice(strategy.method.steps(cluster), 6) for job in step.jobs]
    assert len(set(owners)) == 6
    for owner, batch in zip(owners, drawn, strict=True):
        assert all((shards[owner] == x).all(dim=1).any() for x in batch)


def test_what_is_sent_and_the_error_are_logged(classifier, images, quiet, tmp_path) -> None:
    strategy = strategy_of(OFTEN_LATE, measure_error=True, decoder="lmmse")
    logger = CSVLogger(tmp_path)
    callbacks = [LogicalTimeMonitor()]
    trainer = quiet(strategy=strategy, max_steps=STEPS, callbacks=callbacks, logger=logger, log_every_n_steps=1)
    trainer.fit(classifier(), images())
    lines = Path(logger.log_dir, "metrics.csv").read_text().splitlines()
    header, *rows = (line.split(",") for line in lines)
    table = {name: [row[i] for row in rows if row[i]] for i, name in enumerate(header)}
    sent = [float(value) for value in table["bits/step"]]
    totals = [float(value) for value in table["bits_sent"]]
    assert totals == torch.tensor(sent, dtype=torch.float64).cumsum(0).tolist()
    arrived = [float(value) for value in table["arrived"]]
    assert [value > 0 for value in arrived] == [value > 0 for value in sent]
    assert len(table["relative_error"]) == sum(value > 0 for value in arrived) < STEPS
    assert {"kappa", "rho", "utilization"} <= set(header)


def test_the_time_of_workers_whose_message_was_used_is_their_utilization(classifier, images, quiet) -> None:
    monitor = LogicalTimeMonitor()
    strategy = strategy_of(BernoulliStragglers([0.4, 0.5, 0.6], on_time=0.5))
    quiet(strategy=strategy, max_steps=STEPS, callbacks=[monitor]).fit(classifier(), images())
    steps = islice(strategy.method.steps(strategy.cluster), STEPS)
    assert monitor._used_time == 0.5 * sum(int(step.arrived.sum()) for step in steps)


def test_a_budget_that_is_too_small_is_refused_before_training(classifier, images, quiet) -> None:
    with pytest.raises(ValueError, match="raise bits"):
        quiet(strategy=strategy_of(OFTEN_LATE, bits=1, quantizer="qsgd"), max_steps=3).fit(classifier(), images())
