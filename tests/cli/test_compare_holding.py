"""An iterate that is current at several points of the grid counts at each, whatever the method waits for."""

import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lightning_async.cli.compare.holding import held, on_grid
from lightning_async.cli.compare.measures import outcome, time_to_target
from lightning_async.cli.compare.plan import Run, known_runs
from lightning_async.cli.compare.reading import load_comparison
from lightning_async.cli.compare.results import RunResult
from lightning_async.cli.compare.schema import Target
from lightning_async.cli.main import main
from tests.cli.stored import results

EVERY = 2.0


def clock(made: list[float], end: float, every: float = EVERY) -> list[tuple[int, float]]:
    """(iterate, when it is counted) at every point of the grid, by looking at each."""
    seen, before = [], None
    for point in range(1, int(end / every) + 1):
        current = max((i for i, time in enumerate(made) if time <= point * every), default=None)
        if current is not None:
            seen.append((current, made[current] if current != before else point * every))
        before = current
    return seen


def evaluated(made: list[float], end: float) -> list[int]:
    """The iterates that are current at a point of the grid at all."""
    return sorted({iterate for iterate, _ in clock(made, end)})


STEPS = st.lists(st.sampled_from([0.5, 1.0, 1.5, 2.0, 3.0, 7.0, 16.0, 31.0]), min_size=1, max_size=12)


@given(durations=STEPS, values=st.lists(st.sampled_from([0.0, 0.5, 1.0]), min_size=13, max_size=13), data=st.data())
def test_the_time_to_target_is_that_of_a_clock_that_looks_at_every_point(
    durations: list[float], values: list[float], data: st.DataObject
) -> None:
    window = data.draw(st.integers(1, 5))
    made = [sum(durations[: k + 1]) for k in range(len(durations))]
    end = made[-1] + data.draw(st.sampled_from([0.0, 1.0, 9.0]))
    target = Target("acc", data.draw(st.sampled_from([0.3, 0.5, 0.9])), "max", window)
    looked = clock(made, end)
    expected = time_to_target([time for _, time in looked], [values[i] for i, _ in looked], target)
    validated = evaluated(made, end)
    if validated:
        index, times = held([made[i] for i in validated], EVERY, end, window)
        assert time_to_target(times, [values[validated[i]] for i in index], target) == expected


def test_a_long_wait_is_as_short_as_the_window_and_ends_with_it() -> None:
    index, times = held([2.0, 2e9], EVERY, 4e9, window=3)
    assert (index, times) == ([0] * 5 + [1] * 5, [2.0, 4.0, 6.0, 8.0, 2e9 - 2, 2e9, 2e9 + 2, 2e9 + 4, 2e9 + 6, 4e9])


def measured(times: list[float], values: list[float], status: Any = "finished") -> RunResult:
    columns = {"metrics": {"acc": values}, "counters": {"bits_sent": [10.0 * t for t in times]}}
    return RunResult(status, times=times, steps=[1] * len(times), train_loss=[math.nan] * len(times), **columns)


def run(stop: bool) -> Run:
    return Run({}, {"metric": "acc"} if stop else None, ("acc", "acc"), budget=20.0, evaluate_every=EVERY)


TARGET = Target("acc", 0.5, "max", 2)


def test_a_run_holds_its_last_iterate_until_the_budget_ends() -> None:
    result = on_grid(run(stop=True), measured([4.0, 9.0], [0.1, 0.4]), TARGET)
    assert result.times == [4.0, 6.0, 8.0, 9.0, 12.0, 14.0, 20.0]
    assert result.metrics["acc"] == [0.1] * 3 + [0.4] * 4
    assert result.counters["bits_sent"] == [40.0] * 3 + [90.0] * 4
    assert outcome(result, TARGET, 20.0).final == 0.4


def test_a_run_that_stopped_at_the_target_or_diverged_holds_nothing_after_its_end() -> None:
    arrived = measured([4.0, 9.0], [0.1, 0.9])
    assert on_grid(run(stop=True), arrived, TARGET).times == [4.0, 6.0, 8.0, 9.0]
    assert on_grid(run(stop=False), arrived, TARGET).times == [4.0, 6.0, 8.0, 9.0, 12.0, 14.0, 20.0]
    assert on_grid(run(stop=True), measured([4.0, 9.0], [0.1, 0.2], "diverged"), TARGET).times == [4.0, 6.0, 8.0, 9.0]


def test_a_run_without_an_evaluation_has_none() -> None:
    assert on_grid(run(stop=True), measured([], []), TARGET).times == []


@pytest.mark.parametrize("window", [1, 3])
def test_a_run_ends_when_its_iterate_has_been_good_enough_for_long_enough(
    tmp_path: Path, write_comparison: Any, monkeypatch: pytest.MonkeyPatch, window: int
) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    cluster = {
        "times": {"class_path": "lightning_async.simulation.FixedTimes", "init_args": {"times": [1.0, 6.0]}},
    }
    path = write_comparison(
        tmp_path,
        cluster=cluster,
        seeds=[0],
        budget=60,
        stop_at_target=True,
        methods={"minibatch_sgd": None},
        target={"metric": "val/loss", "value": 3.0, "mode": "min", "window": window},
    )
    assert main(["compare", str(path), "--output", str(tmp_path / "out")]) == 0
    comparison = load_comparison(path)
    ((key, planned),) = known_runs(comparison, {}).items()
    (content,) = results(tmp_path / "out").values()
    # An update every 6 units, evaluations every unit: the target is reached by one iterate that stays for long enough.
    assert content["times"] == [6.0 * k for k in range(len(content["times"]))]
    looked = clock(content["times"], end=60.0, every=1.0)
    values = [content["metrics"]["val/loss"][iterate] for iterate, _ in looked]
    expected = time_to_target([time for _, time in looked], values, comparison.target)
    stored = RunResult.loads((tmp_path / "out" / "runs" / key / "result.json").read_text())
    assert outcome(on_grid(planned, stored, comparison.target), comparison.target, 60.0).arrived == expected
    assert expected is not None
    assert expected % 6.0 == (0.0 if window == 1 else 1.0)  # in the second case, the mean arrives while it waits
    assert content["times"][-1] == (expected if window == 1 else expected + 5.0)  # at the next evaluation
