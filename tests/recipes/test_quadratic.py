"""The quadratic study: its problem, its runs, what is stored, and what the report says."""

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from lightning_async import simulate
from lightning_async.methods import DelayAdaptiveASGD, ParameterAgnosticRingmaster, RennalaSGD, RingmasterASGD
from lightning_async.optim import LMO
from recipes.quadratic import Grid, Profile, Quadratic, Study
from recipes.quadratic import __main__ as command
from recipes.quadratic.report import write_report
from recipes.quadratic.running import Result, execute
from recipes.quadratic.settings import LABELS, PROFILES
from recipes.studies import Results

CONFIGS = sorted((Path(__file__).parents[2] / "configs" / "quadratic").glob("*.yaml"))

SMALL = Study(
    profiles={"sqrt": Profile(horizon=60.0, target=0.2), "linear": Profile(horizon=60.0, target=0.3)},
    methods={
        "ringmaster": Grid([0.2, 1.0], [2, 8]),
        "parameter_agnostic": Grid([1.0, 5.0]),
        "rennala": Grid("5^-1..5^0", [2]),
        "delay_adaptive": Grid("5^-3..5^-1"),
    },
    dimension=30,
    workers=20,
    evaluations=40,
)


def dense(dimension: int) -> tuple[torch.Tensor, torch.Tensor]:
    eye, off = torch.eye(dimension), torch.diag(torch.ones(dimension - 1), 1)
    b = torch.zeros(dimension)
    b[0] = -0.25
    return (2 * eye - off - off.T) / 4, b


@given(st.integers(2, 40), st.integers(0, 1000))
@settings(max_examples=30)
def test_gradient_gap_and_minimiser_are_those_of_the_dense_matrix(dimension: int, seed: int) -> None:
    matrix, b = dense(dimension)
    x = torch.randn(dimension, generator=torch.Generator().manual_seed(seed))
    problem = Quadratic(dimension)
    torch.testing.assert_close(problem.gradient(x), matrix @ x - b)
    best = torch.linalg.solve(matrix.double(), b.double())
    torch.testing.assert_close(problem.minimiser().double(), best, rtol=0, atol=1e-5)

    def value(y: torch.Tensor) -> float:
        return float(0.5 * y @ matrix.double() @ y - b.double() @ y)

    assert problem.gap(x) == pytest.approx(value(x.double()) - value(best), rel=1e-4, abs=1e-6)


def test_noise_has_the_given_deviation_and_no_bias() -> None:
    problem, exact = Quadratic(200, noise=0.5, seed=3), Quadratic(200)
    x = problem.start()
    noise = torch.stack([problem.gradient(x) - exact.gradient(x) for _ in range(200)])
    count = noise.numel()
    assert abs(noise.mean()) < 4 * 0.5 / math.sqrt(count)
    assert abs(noise.std() - 0.5) < 4 * 0.5 / math.sqrt(2 * count)


@pytest.mark.parametrize("profile", PROFILES)
def test_times_are_those_of_the_profile(profile: str) -> None:
    study = replace(SMALL, profiles={profile: Profile(10.0, 1.0)}, workers=9)
    cluster = study.run(profile, "ringmaster", (0.1, 2), 0, tuning=False).make_cluster()
    slow = {"uniform": 1.0, "sqrt": 3.0, "linear": 9.0}[profile]
    assert cluster.times.times.constant[8] == 1.0 + slow
    assert cluster.times.std[8] == pytest.approx(math.sqrt(1.0 + slow**2))


@pytest.mark.parametrize(
    ("method", "steps", "schedule", "optimizer"),
    [
        ("ringmaster", "sgd", RingmasterASGD, torch.optim.SGD),
        ("rennala", "sgd", RennalaSGD, torch.optim.SGD),
        ("delay_adaptive", "sgd", DelayAdaptiveASGD, torch.optim.SGD),
        ("parameter_agnostic", "sgd", ParameterAgnosticRingmaster, LMO),
        ("ringmaster", "lmo", RingmasterASGD, LMO),
    ],
)
def test_a_run_is_what_its_name_says(method, steps, schedule, optimizer) -> None:
    run = replace(SMALL, steps=steps).run("sqrt", method, next(SMALL.grid(method)), 0, tuning=False)
    assert type(run.make_method()) is schedule
    assert type(run.make_optimizer(torch.zeros(3))) is optimizer


def test_a_run_equals_simulate() -> None:
    run = SMALL.run("sqrt", "ringmaster", (0.2, 8), 1, tuning=False)
    problem = Quadratic(30, 0.01, seed=1)
    x = problem.start()
    optimizer = torch.optim.SGD([x], lr=0.2)
    steps = simulate(
        RingmasterASGD(8), run.make_cluster(), [x], optimizer, lambda job: [problem.gradient(x)], max_time=60.0
    )
    updates = sum(1 for _ in steps)
    result = execute(run)
    assert (result.updates, result.gaps[-1], result.times[-1]) == (updates, problem.gap(x), 60.0)
    assert result.times == [60.0 * number / 40 for number in range(41)]


def test_an_evaluation_is_of_the_iterate_that_stands_at_that_time() -> None:
    run = replace(SMALL, evaluations=7).run("sqrt", "ringmaster", (0.2, 8), 1, tuning=False)
    problem = Quadratic(30, 0.01, seed=1)
    x = problem.start()
    optimizer = torch.optim.SGD([x], lr=0.2)
    trace = [(0.0, problem.gap(x))]
    for step in simulate(
        RingmasterASGD(8), run.make_cluster(), [x], optimizer, lambda job: [problem.gradient(x)], max_time=60.0
    ):
        trace.append((step.time, problem.gap(x)))
    result = execute(run)
    assert result.gaps == [[gap for time, gap in trace if time <= at][-1] for at in result.times]


def test_runs_of_a_grid_end_at_the_target_and_agree_until_then() -> None:
    tuning = execute(SMALL.run("sqrt", "rennala", (1.0, 2), 5, tuning=True))
    whole = execute(SMALL.run("sqrt", "rennala", (1.0, 2), 5, tuning=False))
    assert tuning.gaps[-1] <= 0.2 < tuning.gaps[-2]
    assert whole.gaps[: len(tuning.gaps)] == tuning.gaps
    assert len(whole.gaps) > len(tuning.gaps)


def test_a_run_that_diverges_says_so_and_has_finite_gaps() -> None:
    result = execute(SMALL.run("sqrt", "delay_adaptive", (25.0, None), 0, tuning=False))
    assert result.status == "diverged"
    assert all(math.isfinite(gap) for gap in result.gaps)
    assert result.outcome(1e-9, 60.0).arrived is None


def test_two_runs_share_worker_times_and_differ_in_their_key() -> None:
    one, other = (
        SMALL.run("sqrt", name, next(SMALL.grid(name)), 4, tuning=False) for name in ("ringmaster", "rennala")
    )
    times = [run.make_cluster().times.duration(3, 7, seed=4) for run in (one, other)]
    assert times[0] == times[1]
    assert one.key != other.key


@pytest.fixture(scope="module")
def output(tmp_path_factory) -> Path:
    """A whole study, by the command."""
    folder = tmp_path_factory.mktemp("quadratic")
    file = folder / "small.yaml"
    file.write_text(
        """
study:
  dimension: 30
  workers: 20
  evaluations: 40
  profiles:
    sqrt: {horizon: 60, target: 0.2}
    linear: {horizon: 60, target: 0.3}
  methods:
    ringmaster: {step: [0.2, 1], count: [2, 8]}
    parameter_agnostic: {step: [1, 5]}
    rennala: {step: 5^-1..5^0, count: [2]}
    delay_adaptive: {step: 5^-3..5^-1}
"""
    )
    assert command.main([f"--config={file}", f"--output={folder / 'results'}"]) == 0
    return folder


@pytest.mark.xdist_group("study of quadratic")
def test_the_report_compares_ringmaster_with_every_method_on_every_profile(output: Path) -> None:
    report = (output / "results" / "report.md").read_text()
    findings = [line for line in report.splitlines() if line.startswith(("* sqrt:", "* linear:"))]
    assert len(findings) == 2
    assert all(LABELS[name] in line for line in findings for name in SMALL.methods)
    assert (output / "results" / "curves.png").stat().st_size > 10_000
    table = (output / "results" / "table.md").read_text()
    assert sum(line.startswith("| Rennala") for line in table.splitlines()) == 2


@pytest.mark.xdist_group("study of quadratic")
def test_finished_runs_are_skipped(output: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = {path: path.stat().st_mtime_ns for path in (output / "results" / "runs").iterdir()}
    assert len(files) == 2 * (4 + 2 + 2 + 3 + 4 * 3)
    monkeypatch.setattr(command, "execute", None)  # nothing is left to be run
    command.main([f"--config={output / 'small.yaml'}", f"--output={output / 'results'}"])
    assert files == {path: path.stat().st_mtime_ns for path in (output / "results" / "runs").iterdir()}


def test_half_a_result_counts_as_none(tmp_path: Path) -> None:
    run = SMALL.run("sqrt", "rennala", (1.0, 2), 5, tuning=True)
    stored = Results(tmp_path, Result)
    assert stored.read(run) is None
    stored.write(run, execute(run))
    kept = stored.read(run)
    assert kept is not None
    (file,) = (tmp_path / "runs").iterdir()
    assert json.loads(file.read_text())["run"]["method"] == "rennala"
    file.write_text(file.read_text()[:-30])
    assert stored.read(run) is None


def test_who_does_not_arrive_makes_the_comparison_a_bound(tmp_path: Path) -> None:
    study = replace(
        SMALL,
        profiles={"sqrt": Profile(60.0, 0.2)},
        methods={"ringmaster": Grid([1.0], [2]), "delay_adaptive": Grid([1e-6])},
    )
    runs = [run for name in study.methods for runs in study.tuning_runs("sqrt", name).values() for run in runs]
    runs += [study.run("sqrt", n, next(study.grid(n)), s, tuning=False) for n in study.methods for s in study.seeds]
    text = write_report(study, {run.key: execute(run) for run in runs}, tmp_path, "again")
    assert "ahead of (factor > " in text


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_a_configuration_describes_the_experiment(path: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    seen: list[Study] = []

    class StopHere(Exception):  # noqa: N818
        pass

    def look(runs, *_, **__):
        seen.extend(runs)
        raise StopHere

    monkeypatch.setattr(command, "run_missing", look)
    with pytest.raises(StopHere):
        command.main([f"--config={path}", f"--output={tmp_path}"])
    assert {(run.dimension, run.workers, run.noise) for run in seen} == {(1729, 6174, 0.01)}
    assert {run.method for run in seen} == set(LABELS)


def test_any_value_can_be_changed_on_the_command_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    seen: list[object] = []
    monkeypatch.setattr(command, "run_missing", lambda runs, *_, **__: seen.extend(runs) or 1 / 0)
    with pytest.raises(ZeroDivisionError):
        command.main(["--study.workers=50", "--study.steps=lmo", f"--output={tmp_path}"])
    assert {(run.workers, run.steps) for run in seen} == {(50, "lmo")}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"profiles": {"cubic": Profile(1.0, 1.0)}}, "profiles must be some of uniform, sqrt, linear; got cubic"),
        ({"methods": {"adam": Grid([1.0])}}, "methods must be some of ringmaster.*got adam"),
        ({"methods": {"ringmaster": Grid([1.0])}}, "methods.ringmaster needs a count"),
        ({"methods": {"delay_adaptive": Grid([1.0], [2])}}, "methods.delay_adaptive has no count"),
        ({"methods": {"delay_adaptive": Grid([-1.0])}}, "step must be positive"),
        ({"profiles": {"sqrt": Profile(-1.0, 1.0)}}, "positive horizon"),
        ({"workers": 0}, "workers must be at least 1"),
        ({"seeds": ()}, "need one seed"),
        ({"seeds": (-1,)}, r"seeds must be different numbers, 0 or more; got \[-1\]"),
        ({"seeds": (0, 100)}, r"seeds \[100\] would be tuned on and reported"),
        ({"noise": math.nan}, "noise must be finite and at least 0, got nan"),
        ({"profiles": {"sqrt": Profile(math.inf, 1.0)}}, "profiles.sqrt.horizon must be finite, got inf"),
        ({"methods": {"ringmaster": Grid([1.0], [0])}}, r"methods.ringmaster.count must be at least 1"),
    ],
)
def test_a_study_that_makes_no_sense_is_refused(change: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        replace(SMALL, **change)
