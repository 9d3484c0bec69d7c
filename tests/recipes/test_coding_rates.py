"""The study of rates: its problems, its runs, its slopes and its report."""

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.stats import linregress, t

from lightning_async import SimulatedCluster
from lightning_async.simulation import BernoulliStragglers
from recipes.coding_rates import LogisticProblem, NetworkProblem, Study
from recipes.coding_rates import __main__ as command
from recipes.coding_rates.report import summarize, write_report
from recipes.coding_rates.running import Result, execute
from recipes.coding_rates.settings import PROBLEMS, SCHEMES, Run
from recipes.coding_rates.slopes import interval, slope
from recipes.data import load_a9a
from recipes.studies import Results, run_missing

SMALL = Study(
    schemes=("sgd", "proposed_10"), updates=64, fitted=1, horizons=(4, 8, 16), rows=60, hidden=3, seeds=(0, 1), batch=3
)


@pytest.fixture(scope="module")
def logistic() -> LogisticProblem:
    return LogisticProblem(l2=0.1)


def test_the_minimum_of_the_logistic_problem_is_a_stationary_point(logistic: LogisticProblem) -> None:
    (w,) = logistic.parameters
    w.copy_(logistic.minimiser)
    assert abs(logistic.measure()) < 1e-10
    assert logistic.gradient(torch.arange(logistic.num_rows))[0].norm() < 1e-5
    w.zero_()
    assert logistic.measure() > 0.1


@pytest.mark.parametrize("rows", [1, 7])
def test_the_logistic_gradient_is_that_of_autograd(logistic: LogisticProblem, rows: int) -> None:
    chosen = torch.arange(rows) * 11
    w = torch.linspace(-1.0, 1.0, 123, requires_grad=True)
    features, labels = load_a9a().train.__getitems__(chosen)
    margins = labels * (features @ w)
    (torch.nn.functional.softplus(-margins).mean() + 0.05 * w.square().sum()).backward()
    logistic.parameters[0].copy_(w.detach())
    torch.testing.assert_close(logistic.gradient(chosen)[0], w.grad)
    logistic.parameters[0].zero_()


def test_the_gradient_of_the_network_is_that_of_autograd() -> None:
    problem = NetworkProblem(rows=50, hidden=4, seed=1)
    found, measured = problem.gradient(torch.arange(50)), problem.measure()
    for p in problem.parameters:
        p.requires_grad_(True)
    w, b, v, c = problem.parameters
    logits = torch.tanh(problem._inputs @ w.T + b) @ v.T + c
    expected = torch.autograd.grad(torch.nn.functional.cross_entropy(logits, problem._labels), problem.parameters)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-6)
    assert measured == pytest.approx(sum(float(g.square().sum()) for g in expected), rel=1e-4)


def test_without_stragglers_and_with_many_bits_a_coded_run_is_the_centralised_one(monkeypatch) -> None:
    run = SMALL.runs("network", "sgd", 0)[-1]
    monkeypatch.setitem(SCHEMES, "exact", replace(SCHEMES["proposed_10"], bits=160))
    coded, make_cluster = replace(run, scheme="exact"), Run.make_cluster
    punctual = SimulatedCluster(BernoulliStragglers([0.0] * coded.workers), seed=coded.seed)
    monkeypatch.setattr(Run, "make_cluster", lambda made: punctual if made == coded else make_cluster(made))
    assert execute(coded).errors[0] == pytest.approx(execute(run).errors[0], rel=1e-3)


def test_steps_on_a9a_fall_as_one_over_t_and_stay_on_the_network() -> None:
    convex, network = SMALL.runs("a9a", "sgd", 0)[0], SMALL.runs("network", "sgd", 0)[-1]
    assert [convex.step_size(t) for t in (0, 100)] == [0.2, 0.1]
    assert [network.step_size(t) for t in (0, 15)] == [0.25, 0.25]


def test_the_error_of_the_network_is_the_mean_over_the_run() -> None:
    run = replace(SMALL.runs("network", "sgd", 0)[0], every=1)
    norms = [execute(replace(run, horizon=t, checkpoints=(t,), scale=run.scale * (t / 4) ** 0.5)) for t in (1, 2, 3, 4)]
    sums = [result.errors[0] * (t + 1) for t, result in enumerate(norms)]
    assert sums == sorted(sums)
    assert sums[0] == pytest.approx(run.make_problem().measure(), rel=1e-9)


def test_slopes_and_intervals_are_those_of_scipy() -> None:
    rng = np.random.default_rng(0)
    steps, values = [1, 2, 4, 8, 16], rng.random(5) + 0.1
    assert slope(steps, values.tolist()) == pytest.approx(linregress(np.log(steps), np.log(values)).slope)
    for count in (2, 3, 7):
        sample = rng.normal(size=count)
        low, high = t.interval(0.95, count - 1, sample.mean(), sample.std(ddof=1) / count**0.5)
        found = interval(sample.tolist())
        assert (found.mean - found.half, found.mean + found.half) == pytest.approx((low, high), rel=1e-4)


def _made_up(study: Study, power: float) -> dict[str, Result]:
    """Errors that fall exactly as a power, twice as large for every further scheme."""
    results = {}
    for problem in PROBLEMS:
        for number, scheme in enumerate(study.schemes):
            for seed in study.seeds:
                for run in study.runs(problem, scheme, seed):
                    shift = study.offset if problem == "a9a" else 0.0
                    errors = [2.0**number * (1 + 0.01 * seed) * (t + shift) ** power for t in run.checkpoints]
                    results[run.key] = Result(list(run.checkpoints), errors, 0.0)
    return results


@pytest.mark.parametrize("problem", PROBLEMS)
def test_the_summary_finds_a_power_law_and_a_factor(problem) -> None:
    first, second = summarize(SMALL, problem, _made_up(SMALL, -0.7))
    assert first.slope.mean == pytest.approx(-0.7)
    assert first.slope.half == pytest.approx(0.0, abs=1e-9)
    assert first.factor is None
    assert second.factor is not None
    assert second.factor.mean == pytest.approx(2.0)


def test_the_report_holds_tables_figure_and_command(tmp_path: Path) -> None:
    text = write_report(SMALL, _made_up(SMALL, -1.0), tmp_path, "the command")
    page = (tmp_path / "report.md").read_text()
    assert "| Proposed, 10 bits | -1.000 +- 0.000 |" in text
    assert "the command" in page
    assert (tmp_path / "rates.png").read_bytes().startswith(b"\x89PNG")


def test_finished_runs_are_kept_and_damaged_ones_made_again(tmp_path: Path) -> None:
    runs = SMALL.runs("network", "proposed_10", 0)[:2]
    stored = Results(tmp_path, Result)
    first = run_missing(runs, stored, execute, str, jobs=1)
    kept, damaged = (tmp_path / "runs" / f"{run.key}.json" for run in runs)
    before = kept.stat().st_mtime_ns
    damaged.write_text(damaged.read_text()[:-9])
    again = run_missing(runs, stored, execute, str, jobs=1)
    assert kept.stat().st_mtime_ns == before
    assert {key: r.errors for key, r in again.items()} == {key: r.errors for key, r in first.items()}
    assert json.loads(damaged.read_text())["run"]["scheme"] == "proposed_10"


def test_the_command_writes_its_report(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch) -> None:
    made_up = _made_up(replace(SMALL, schemes=("sgd",)), -1.0)
    monkeypatch.setattr(command, "run_missing", lambda runs, *_, **__: {run.key: made_up[run.key] for run in runs})
    words = "--study.schemes [sgd] --study.updates 64 --study.fitted 1 --study.horizons [4,8,16] --study.rows 60"
    words += f" --study.hidden 3 --study.seeds [0,1] --study.batch 3 --output {tmp_path}"
    assert command.main(words.split()) == 0
    assert "Centralised SGD" in capsys.readouterr().out
    assert "--study.updates 64" in (tmp_path / "report.md").read_text()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"schemes": ("best",)}, "some of sgd, proposed_50"),
        ({"seeds": (1,)}, "two different ones"),
        ({"horizons": (4, 8)}, "three different ones"),
        ({"updates": 20}, r"at least 2\^\(fitted \+ 3\)"),
        ({"workers": 0}, "workers must be at least 1, got 0"),
        ({"batch": 0}, "batch must be at least 1, got 0"),
        ({"workers": 11, "schemes": ("uncoded_10",)}, "workers must be at most 10, one bit each, with uncoded_10"),
        ({"every": 0}, "every must be at least 1, got 0"),
        ({"hidden": 0}, "hidden must be at least 1, got 0"),
        ({"offset": 0.0}, "offset must be above 0, got 0"),
        ({"offset": 1.0}, r"offset must be at least scale \* l2 = 2"),
        ({"rows": 0}, "rows must be between 1 and 6000, the images that are shipped; got 0"),
        ({"rows": 6001}, "rows must be between 1 and 6000"),
        ({"horizons": (0, 8, 16)}, r"horizons must be at least 1, got \(0, 8, 16\)"),
        ({"seeds": (-1, 0)}, r"seeds must be different numbers, 0 or more; got \[-1, 0\]"),
        ({"seeds": (0, 0, 1)}, "seeds must be different numbers"),
        ({"slowest": 3.0}, "slowest must be at least 0.05 and at most 0.99, got 3"),
        ({"l2": 0.0}, "l2 must be at least 0.0001, got 0"),
        ({"network_scale": 1e30}, r"network_scale must be above 0 and at most 1000, got 1e\+30"),
        ({"scale": math.nan}, "scale must be finite and above 0, got nan"),
        ({"scale": 4.0}, r"above 1 / \(2 l2\) = 5"),
    ],
)
def test_a_study_that_cannot_be_is_refused(changes: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        replace(Study(), **changes)
