"""A fit that is too short for a merge is reported before it begins."""

import pytest
from lightning.fabric.utilities.exceptions import MisconfigurationException
from torch.utils.data import DataLoader, IterableDataset

from lightning_async import Link, SimulatedCluster
from lightning_async.callbacks import LogicalTimeLimit
from lightning_async.methods import LOSCAR
from lightning_async.simulation import FixedTimes, UniformTimes
from lightning_async.strategies import LocalSGDStrategy


def _strategy(latency=2.0):
    cluster = SimulatedCluster(FixedTimes([1.0, 1.5, 2.3]), Link(latency=latency))
    return LocalSGDStrategy(LOSCAR(0.5, compute_window=4.0), cluster)


def test_a_link_so_slow_that_no_round_fits_into_the_budget_is_reported_before_training(classifier, images, quiet):
    class Untouched(classifier):
        def training_step(self, batch, batch_idx):
            raise AssertionError("training has begun")

    cluster = SimulatedCluster(UniformTimes(2), Link(bandwidth=0.1))
    strategy = LocalSGDStrategy(LOSCAR(0.5, compute_window=2.0), cluster)
    with pytest.raises(MisconfigurationException, match=r"after the budget of 100.*bandwidth=0\.1"):
        quiet(strategy=strategy, max_steps=4, callbacks=[LogicalTimeLimit(100.0)]).fit(Untouched(), images())


@pytest.mark.parametrize(
    ("arguments", "limit", "steps"),
    [
        ({"max_steps": 5}, "max_steps=5", 5),
        ({"max_epochs": 2}, "max_epochs=2", 10),
        ({"max_epochs": 2, "limit_train_batches": 3}, "max_epochs=2", 6),
        ({"max_epochs": 2, "max_steps": 7}, "max_steps=7", 7),
        ({"max_epochs": 1, "max_steps": 7}, "max_epochs=1", 5),
    ],
    ids=["steps", "epochs", "short-epochs", "steps-before-epochs", "epochs-before-steps"],
)
def test_a_fit_that_ends_within_the_first_round_is_reported_before_training(
    classifier, images, quiet, arguments, limit, steps
):
    message = rf"Trainer\({limit}\) ends before replicas are merged for the first time, after {steps} local steps"
    with pytest.warns(UserWarning, match=message):
        quiet(strategy=_strategy(latency=50.0), **{"max_epochs": -1, **arguments}).fit(classifier(), images())


def test_a_fit_whose_replicas_are_never_merged_anyway_is_not_reported(classifier, images, quiet, recwarn):
    strategy = LocalSGDStrategy(LOSCAR(0.0, compute_window=100.0), SimulatedCluster(UniformTimes(2)))
    quiet(strategy=strategy, max_steps=4, callbacks=[LogicalTimeLimit(50.0)]).fit(classifier(), images())
    assert not [warning for warning in recwarn if "ends before replicas are merged" in str(warning.message)]


def test_a_fit_of_a_whole_round_or_of_unknown_length_is_not_reported(classifier, images, quiet, recwarn):
    class Stream(IterableDataset):
        def __iter__(self):
            return iter(images().dataset)

    strategy = _strategy(latency=50.0)
    quiet(strategy=strategy, max_epochs=1).fit(classifier(), DataLoader(Stream(), batch_size=3))
    assert strategy.local.rounds == 0
    strategy = _strategy()
    quiet(strategy=strategy, max_epochs=3).fit(classifier(), images())
    assert strategy.local.rounds == 1
    assert not [warning for warning in recwarn if "ends before replicas are merged" in str(warning.message)]


def test_only_the_steps_of_the_run_itself_count_towards_its_first_round(classifier, images, quiet, tmp_path):
    plain = quiet(max_steps=20)
    plain.fit(classifier(), images())
    plain.save_checkpoint(tmp_path / "plain.ckpt")
    with pytest.warns(UserWarning, match=r"max_steps=24\) ends before replicas are merged.*after 4 local steps"):
        quiet(strategy=_strategy(), max_steps=24).fit(classifier(), images(), ckpt_path=tmp_path / "plain.ckpt")
