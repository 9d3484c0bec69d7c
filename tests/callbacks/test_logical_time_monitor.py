from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import torch
from lightning.pytorch import Callback

from lightning_async import Link, SimulatedCluster
from lightning_async.callbacks import LogicalTimeLimit, LogicalTimeMonitor
from lightning_async.methods import ASGD, Method, MinibatchSGD, RennalaSGD, RingmasterASGD
from lightning_async.simulation import (
    FixedTimes,
    OutagePower,
    PowerTimes,
    RandomTimes,
    SinusoidalPower,
    Step,
    WorkerTimes,
)
from lightning_async.strategies import ParameterServerStrategy
from tests.callbacks.training import Memory, Regression, SaveAt, step_times, trainer_of

TIMES = FixedTimes([1.0, 2.5, 3.3])
GRADIENT = 32 * 21  # bits, of the 21 parameters of Regression


def rows_of(*callbacks: Callback, steps: int = 12, every: int = 1, **kwargs: Any) -> list[dict[str, float]]:
    """What the monitor logs."""
    logger = Memory()
    arguments = {"times": TIMES, "max_steps": steps, "log_every_n_steps": every, "limit_val_batches": 0, **kwargs}
    trainer_of(*callbacks, LogicalTimeMonitor(), logger=logger, **arguments).fit(Regression())
    return logger.with_key("discarded")


def arrivals(times: list[float], count: int) -> list[tuple[float, int]]:
    """(time, worker) of the first arrivals at workers that never pause."""
    clock = [0.0] * len(times)
    events = []
    for _ in range(count):
        worker = min(range(len(times)), key=lambda w: (clock[w] + times[w], w))
        clock[worker] += times[worker]
        events.append((clock[worker], worker))
    return events


def vanilla_account(times: list[float], count: int) -> list[dict[str, float]]:
    """Vanilla asynchronous SGD by hand: every arrival is a step."""
    begun = [0] * len(times)  # the step after which a worker's job was given out
    useful, account = 0.0, []
    for step, (time, worker) in enumerate(arrivals(times, count)):
        useful += times[worker]
        delay = step - begun[worker]
        begun[worker] = step + 1
        account.append(
            {
                "logical_time": time,
                "delay/mean": delay,
                "delay/max": delay,
                "discarded": 0.0,
                "nonfinite": 0.0,
                "utilization": useful / (len(times) * time),
                "busy": 1.0,
                "bits_sent": GRADIENT * (step + 1),
            }
        )
    return account


def approximately(rows: list[dict[str, float]]) -> list[Any]:
    return [pytest.approx(row, rel=1e-12) for row in rows]


def test_every_number_of_vanilla_asgd() -> None:
    assert rows_of() == approximately(vanilla_account([1.0, 2.5, 3.3], 12))


def test_delays_are_those_since_the_last_row_and_the_rest_is_in_total() -> None:
    account = vanilla_account([1.0, 2.5, 3.3], 12)
    expected = []
    for end in (4, 8, 12):
        delays = [row["delay/mean"] for row in account[end - 4 : end]]
        expected.append({**account[end - 1], "delay/mean": sum(delays) / 4, "delay/max": max(delays)})
    assert rows_of(every=4) == approximately(expected)


def test_every_number_of_minibatch_sgd() -> None:
    # All three workers are needed in every step, the slowest takes 3.3.
    rows = rows_of(method=MinibatchSGD(), steps=4)
    assert rows == approximately(
        [
            {
                "logical_time": 3.3 * (k + 1),
                "delay/mean": 0.0,
                "delay/max": 0.0,
                "discarded": 0.0,
                "nonfinite": 0.0,
                "utilization": (1.0 + 2.5 + 3.3) / (3 * 3.3),
                "busy": (1.0 + 2.5 + 3.3) / (3 * 3.3),
                "bits_sent": GRADIENT * 3 * (k + 1),
            }
            for k in range(4)
        ]
    )


def test_every_number_of_rennala_sgd_with_stops() -> None:
    # Rounds of 3.0: workers 0, 0, 1 (at 1, 2, 2.5); then all stop what they do: the next job of 0, of 1, and that of 2.
    rows = rows_of(method=RennalaSGD(batch=3), steps=3)
    assert rows == approximately(
        [
            {
                "logical_time": 2.5 * (k + 1),
                "delay/mean": 0.0,
                "delay/max": 0.0,
                "discarded": 2.0 * k,  # jobs of 0 and 2 under way; worker 1 has just finished
                "nonfinite": 0.0,
                "utilization": (1.0 + 1.0 + 2.5) / (3 * 2.5),
                "busy": 1.0,
                "bits_sent": GRADIENT * 3 * (k + 1),  # what is stopped is not sent
            }
            for k in range(3)
        ]
    )


def test_refused_work_counts_as_busy_and_not_as_used() -> None:
    # With R = 1 only gradients of delay 0 are used: without stops, slow workers are refused over and over.
    rows = rows_of(method=RingmasterASGD(threshold=1, stops=False), steps=30)
    schedule = list(islice(RingmasterASGD(1, stops=False).steps(SimulatedCluster(TIMES)), 30))
    times = (1.0, 2.5, 3.3)
    for k, row in enumerate(rows):
        used = sum(times[job.worker] for step in schedule[: k + 1] for job in step.jobs)
        assert row["utilization"] == pytest.approx(used / (3 * schedule[k].time))
        assert row["discarded"] == sum(step.discarded for step in schedule[: k + 1])
        assert row["busy"] == pytest.approx(1.0)
        assert row["bits_sent"] == GRADIENT * (k + 1 + row["discarded"])  # what is refused has been sent
    assert rows[-1]["discarded"] > 0
    assert rows[-1]["utilization"] < 0.9


@pytest.mark.parametrize(
    ("times", "link"),
    [
        (PowerTimes([SinusoidalPower(1.0, 0.5, 3.0), OutagePower([(1.0, 4.0)]), 0.4]), Link()),
        (TIMES, Link(latency=0.3)),
        (TIMES, Link(latency=0.1, bandwidth=500.0)),
        (PowerTimes([SinusoidalPower(1.0, 0.5, 3.0), OutagePower([(1.0, 4.0)]), 0.4]), Link(latency=0.3)),
        (RandomTimes(3, "exponential", [1.0, 2.0, 3.0]), Link(latency=0.3)),
    ],
    ids=["power", "latency", "bandwidth", "power and latency", "random"],
)
def test_worker_time_includes_messages_and_time_without_power(times: WorkerTimes, link: Link) -> None:
    strategy = ParameterServerStrategy(ASGD(), SimulatedCluster(times, link))
    rows = rows_of(strategy=strategy, steps=25)
    # A worker of vanilla SGD is never idle: what it has spent on finished jobs is the time of its last arrival.
    last = [0.0, 0.0, 0.0]
    for row, step in zip(rows, strategy.method.steps(strategy.cluster), strict=False):
        last[step.jobs[0].worker] = step.time
        assert row["utilization"] == pytest.approx(sum(last) / (3 * step.time))
        assert row["busy"] == pytest.approx(1.0)
        assert row["logical_time"] == step.time


class Unlucky(Regression):
    def training_step(self, batch: Any, batch_idx: int) -> Any:
        return super().training_step(batch, batch_idx) * (float("nan") if batch_idx in (1, 2) else 1.0)


@pytest.mark.filterwarnings("ignore:a gradient of step")
def test_gradients_left_out_are_counted() -> None:
    logger = Memory()
    trainer_of(LogicalTimeMonitor(), times=TIMES, max_steps=5, logger=logger, log_every_n_steps=1).fit(Unlucky())
    assert [row["nonfinite"] for row in logger.with_key("nonfinite")] == [0.0, 1.0, 2.0, 2.0, 2.0]


def test_other_callbacks_that_look_ahead_change_no_number() -> None:
    method = MinibatchSGD()
    assert rows_of(LogicalTimeLimit(1e9), method=method) == rows_of(method=method)


class EverySecondStepIsEmpty(Method):
    def steps(self, cluster: Any) -> Any:
        cluster.dispatch_all(version=0)
        k = 0
        while True:
            arrival = cluster.next_arrival()
            yield Step(k, arrival.time, (arrival.job,) if k % 2 else (), 1 - k % 2)
            k += 1
            cluster.dispatch(arrival.worker, version=k)

    def direction(self, step: Any, gradients: Any) -> Any:
        return gradients[0]

    def jobs_per_step(self, num_workers: int) -> None:
        return None


def test_steps_without_a_job_have_no_delay() -> None:
    rows = rows_of(method=EverySecondStepIsEmpty(), steps=6)
    assert ["delay/mean" in row for row in rows] == [False, True] * 3


@pytest.mark.parametrize("every", [1, 3, 5])
def test_a_resumed_run_logs_what_the_uninterrupted_one_does(tmp_path: Path, every: int) -> None:
    def run(*callbacks: Callback, ckpt_path: Path | None = None) -> list[dict[str, float]]:
        logger = Memory()
        trainer = trainer_of(
            LogicalTimeMonitor(),
            *callbacks,
            method=RingmasterASGD(threshold=2),
            times=TIMES,
            max_steps=12,
            logger=logger,
            log_every_n_steps=every,
        )
        trainer.fit(Regression(), ckpt_path=ckpt_path)
        return logger.with_key("discarded")

    save = SaveAt(tmp_path)
    whole = run(save)
    assert len(whole) == 12 // every
    for step in range(1, 12):
        assert run(ckpt_path=save.after_step(step)) == whole[step // every :]
        assert run(ckpt_path=save.after_validation(step)) == whole[step // every :]


def test_steps_made_without_the_monitor_count_in_the_totals(tmp_path: Path) -> None:
    save = SaveAt(tmp_path)
    trainer_of(save, times=TIMES, max_steps=6).fit(Regression())
    logger = Memory()
    trainer = trainer_of(LogicalTimeMonitor(), times=TIMES, max_steps=12, logger=logger, log_every_n_steps=1)
    trainer.fit(Regression(), ckpt_path=save.after_step(6))
    totals = ("logical_time", "discarded", "utilization", "busy")
    assert [[row[key] for key in totals] for row in logger.with_key("discarded")] == [
        [row[key] for key in totals] for row in rows_of()[6:]
    ]


def test_fitting_anew_begins_at_zero() -> None:
    monitor, rows = LogicalTimeMonitor(), []
    for steps in (12, 5):
        logger = Memory()
        trainer_of(monitor, times=TIMES, max_steps=steps, logger=logger, log_every_n_steps=1).fit(Regression())
        rows.append(logger.with_key("discarded"))
    assert rows[1] == rows[0][:5]


def test_state_loads_with_weights_only(tmp_path: Path) -> None:
    save = SaveAt(tmp_path)
    trainer_of(LogicalTimeMonitor(), save, times=TIMES, max_steps=3).fit(Regression())
    assert torch.load(save.after_step(3), weights_only=True)["callbacks"]["LogicalTimeMonitor"]["used_time"] > 0


def test_logical_time_stands_beside_every_metric_exactly() -> None:
    logger = Memory()
    times = RandomTimes(3, "exponential", [1.0, 2.0, 3.0])
    trainer_of(LogicalTimeMonitor(), times=times, logger=logger, log_every_n_steps=1).fit(Regression())
    made = step_times(ASGD(), times, 20)
    assert [row["logical_time"] for row in logger.with_key("train/loss")] == made
    assert [row["logical_time"] for row in logger.with_key("val/loss")] == made
    assert [row["logical_time"] for row in logger.with_key("utilization")] == made


def test_rows_of_the_monitor_and_of_the_module_have_the_same_step() -> None:
    logger = Memory()
    trainer_of(LogicalTimeMonitor(), times=TIMES, logger=logger, log_every_n_steps=3).fit(Regression())
    steps = {key: [step for step, row in logger.rows if key in row] for key in ("train/loss", "utilization")}
    assert steps["train/loss"] == steps["utilization"] == [2, 5, 8, 11, 14, 17]


@pytest.mark.parametrize("every", [0, 1000])
def test_nothing_is_logged_when_the_trainer_logs_nothing(every: int) -> None:
    assert rows_of(every=every) == []
