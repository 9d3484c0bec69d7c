"""`Job`, `Arrival`, `Step`: immutable, compared by value, in the order in which a server processes arrivals."""

import pickle

import pytest

from lightning_async.simulation import Arrival, Job, Step

STEP = Step(
    index=5, time=2.5, jobs=(Job(worker=1, version=5, number=0), Job(worker=0, version=2, number=3)), discarded=1
)


def test_delays_count_the_updates_since_dispatch_in_the_order_of_the_jobs() -> None:
    assert STEP.delays == (0, 3)


def test_a_step_discards_nothing_unless_it_says_so() -> None:
    assert Step(index=0, time=1.0, jobs=()).discarded == 0


def test_arrivals_are_ordered_by_time_and_then_by_worker() -> None:
    arrivals = [Arrival(time, worker, Job(worker, 0, 0)) for time, worker in ((2.0, 0), (1.0, 3), (1.0, 1))]
    assert [(arrival.time, arrival.worker) for arrival in sorted(arrivals)] == [(1.0, 1), (1.0, 3), (2.0, 0)]


def test_the_version_of_an_arrival_is_that_of_its_job() -> None:
    assert Arrival(time=1.0, worker=0, job=Job(worker=0, version=7, number=2)).version == 7


@pytest.mark.parametrize("record", [STEP, STEP.jobs[0], Arrival(1.0, 0, STEP.jobs[1])])
def test_records_are_immutable_hashable_and_survive_pickling(record: tuple[object, ...]) -> None:
    with pytest.raises(AttributeError):
        record.time = 0.0
    copy = pickle.loads(pickle.dumps(record))
    assert copy == record
    assert hash(copy) == hash(record)
    assert type(copy) is type(record)
