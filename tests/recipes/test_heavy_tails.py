"""The heavy-tails study: its noise, its functions, its batched runs, what is measured, and what the report says."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from lightning_async import SimulatedCluster, simulate
from lightning_async.methods import ASGD, ClippedASGD
from lightning_async.simulation import TwoSpeedTimes
from lightning_async.tail_index import estimate_tail
from recipes.heavy_tails import Study, SubWeibullNoise
from recipes.heavy_tails import __main__ as command
from recipes.heavy_tails.objectives import OBJECTIVES
from recipes.heavy_tails.running import Result, execute, gradient_norms, measured
from recipes.heavy_tails.summary import growth, medians, quantile, share
from recipes.studies import Results

CONFIGS = sorted((Path(__file__).parents[2] / "configs" / "heavy_tails").glob("*.yaml"))
SMALL = Study(
    thetas=(0.5, 2.0), noises=(0.5,), slowdowns=(2.0, 8.0), steps=(0.0625,), seeds=12, updates=300, dimension=4
)


def one_run(method: str = "clipped", objective: str = "rippled", theta: float = 2.0):
    return SMALL.run(objective, theta, 0.5, 8.0, method, 0.0625)


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_gradient_is_that_of_the_value(objective: str) -> None:
    function = OBJECTIVES[objective](6)
    x = torch.randn(5, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(0), requires_grad=True)
    (exact,) = torch.autograd.grad(function.value(x).sum(), x)
    torch.testing.assert_close(function.gradient(x.detach()), exact)


@pytest.mark.parametrize("objective", OBJECTIVES)
@given(seed=st.integers(0, 1000))
@settings(max_examples=25)
def test_smoothness_constant_is_one(objective: str, seed: int) -> None:
    function = OBJECTIVES[objective](6)
    x, y = 5 * torch.randn(2, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    assert (function.gradient(x) - function.gradient(y)).norm() <= (x - y).norm() * (1 + 1e-12)


def test_the_rippled_bowl_is_not_convex() -> None:
    function = OBJECTIVES["rippled"](4)
    curvature = torch.func.hessian(function.value)(torch.full((4,), math.pi / 2, dtype=torch.float64))
    assert torch.linalg.eigvalsh(curvature).min() < -0.4


def noise_norms(theta: float, law: str = "symmetric", count: int = 5120) -> np.ndarray:
    noise = SubWeibullNoise([3], dimension=5, theta=theta, level=0.7, law=law)
    return torch.stack([noise.draw()[0] for _ in range(count)]).numpy()


@pytest.mark.parametrize("theta", [0.5, 1.0, 2.0])
def test_noise_has_the_tail_that_it_is_given(theta: float) -> None:
    low, high = estimate_tail(np.linalg.norm(noise_norms(theta), axis=1), confidence=0.999).interval
    assert low < theta < high


@pytest.mark.parametrize("law", ["symmetric", "skewed"])
@pytest.mark.parametrize("theta", [0.5, 1.0, 2.0])
def test_noise_has_mean_zero_and_the_given_root_mean_square(theta: float, law: str) -> None:
    noise = noise_norms(theta, law, count=20480)
    assert np.all(np.abs(noise.mean(axis=0)) < 4 * noise.std(axis=0) / math.sqrt(len(noise)))
    squares = (noise**2).sum(axis=1)
    assert abs(squares.mean() - 0.49) < 4 * squares.std() / math.sqrt(len(squares))


def test_the_stream_of_a_seed_does_not_depend_on_the_others() -> None:
    together, alone = SubWeibullNoise([4, 7], 3, 2.0, 1.0), SubWeibullNoise([7], 3, 2.0, 1.0)
    for _ in range(300):
        assert torch.equal(together.draw()[1], alone.draw()[0])


@pytest.mark.parametrize("method", ["vanilla", "clipped"])
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_a_row_of_the_batch_is_the_run_of_its_seed_with_the_method_itself(method: str, objective: str) -> None:
    run = one_run(method, objective)
    batch = gradient_norms(run, range(5))
    function = OBJECTIVES[objective](run.dimension)
    for seed in range(5):
        noise = SubWeibullNoise([seed], run.dimension, run.theta, run.noise)
        x = torch.full((run.dimension,), run.start, dtype=torch.float64)
        norms = [function.gradient(x).norm().item()]
        steps = simulate(
            ASGD() if method == "vanilla" else ClippedASGD(run.clip),
            SimulatedCluster(TwoSpeedTimes(run.workers, run.slowdown)),
            [x],
            torch.optim.SGD([x], lr=run.step),
            lambda job, x=x, noise=noise: [function.gradient(x) + noise.draw()[0]],
            max_steps=run.updates,
        )
        norms += [function.gradient(x).norm().item() for _ in steps]
        np.testing.assert_allclose(batch[:, seed], norms, rtol=1e-9)


def test_a_seed_that_diverges_is_left_where_it_is() -> None:
    norms = gradient_norms(replace(one_run("vanilla", "bowl"), step=1.5, slowdown=1.0, workers=2), range(3))
    assert np.all(norms[-1] > 1e6)
    assert np.all(norms[-1] < 1e8)
    assert np.array_equal(norms[-1], norms[-2])
    assert measured(norms, eps=0.5).diverged == 3


def test_measures_are_those_of_a_sequence_by_hand() -> None:
    norms = np.array(
        [[4.0, 0.1, 3.0], [1.0, 0.1, 3.0], [0.2, 0.1, 3.0], [1.0, 0.1, 3.0], [0.2, 0.1, 3.0], [0.1, 0.1, 3]]
    )
    result = measured(norms, eps=1.3)
    assert result.first == [1, 0, None]
    assert result.settled == [1, 0, None]
    assert result.mean == [4, 0, None]
    assert measured(norms, eps=0.5).settled == [4, 0, None]
    assert result.final == [0.1, 0.1, 3.0]


def test_growth_of_equal_rows_is_one_and_of_doubled_rows_two() -> None:
    row = np.arange(1.0, 202.0)
    assert growth(np.stack([row, row])).value == 1.0
    doubled = growth(np.stack([row, 2 * row]))
    assert (doubled.value, doubled.low, doubled.high) == (2.0, 2.0, 2.0)


def test_medians_are_infinite_where_most_seeds_never_arrive() -> None:
    row = np.array([1.0, 2.0, math.inf, math.inf, math.inf])
    assert math.isinf(medians(row[None])[0].value)
    assert quantile(row, 0.4) == 2.0


def test_interval_of_a_share_that_is_zero_is_not_empty() -> None:
    interval = share(np.zeros(200, dtype=bool))
    assert (interval.value, interval.low) == (0.0, 0.0)
    assert interval.high == pytest.approx(0.0188, abs=1e-3)  # Wilson 1927 with 200 trials


def test_half_a_result_counts_as_none(tmp_path: Path) -> None:
    run, stored = one_run(), Results(tmp_path, Result)
    stored.write(run, execute(run))
    assert stored.read(run) is not None
    (file,) = (tmp_path / "runs").iterdir()
    file.write_text(file.read_text()[:-20])
    assert stored.read(run) is None


@pytest.fixture(scope="module")
def output(tmp_path_factory) -> Path:
    """A whole study, by the command."""
    folder = tmp_path_factory.mktemp("heavy_tails")
    (folder / "small.yaml").write_text(
        "study: {thetas: [0.5, 2], noises: [0.5], slowdowns: [2, 8], steps: [0.0625], seeds: 12, updates: 300}"
    )
    assert command.main([f"--config={folder / 'small.yaml'}", f"--output={folder / 'results'}"]) == 0
    return folder


@pytest.mark.xdist_group("study of heavy_tails")
def test_the_report_has_a_line_for_every_setting(output: Path) -> None:
    report = (output / "results" / "report.md").read_text()
    assert report.count("| rippled (not convex) | 2 | Clipped ASGD |") == 3 + 1 + 1
    assert all((output / "results" / name).stat().st_size > 10_000 for name in ("delays.png", "tails.png"))


@pytest.mark.xdist_group("study of heavy_tails")
def test_finished_settings_are_skipped(output: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = {path: path.stat().st_mtime_ns for path in (output / "results" / "runs").iterdir()}
    assert len(files) == 2 * 2 * 1 * 2 * 2 * 1
    monkeypatch.setattr(command, "execute", None)
    command.main([f"--config={output / 'small.yaml'}", f"--output={output / 'results'}"])
    assert files == {path: path.stat().st_mtime_ns for path in (output / "results" / "runs").iterdir()}


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_a_configuration_has_200_seeds_of_known_tails(path: Path, monkeypatch, tmp_path: Path) -> None:
    seen: list = []
    monkeypatch.setattr(command, "run_missing", lambda runs, *_, **__: seen.extend(runs) or 1 / 0)
    with pytest.raises(ZeroDivisionError):
        command.main([f"--config={path}", f"--output={tmp_path}"])
    assert {run.seeds for run in seen} == {200}
    assert {run.theta for run in seen} == {0.5, 1.0, 2.0}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"objectives": ("hole",)}, "objectives must be some of bowl, rippled; got hole"),
        ({"thetas": (0.0,)}, "thetas must be different positive numbers"),
        ({"slowdowns": (2.0, 2.0)}, "slowdowns must be different"),
        ({"shown_step": 0.3}, "shown_step must be one of the steps"),
        ({"clip": 0.0}, "clip must be above 0"),
        ({"noises": (math.inf,)}, r"noises must be finite and above 0 and at most 1e\+06, got \(inf,\)"),
        ({"start": math.nan}, "start must be finite and at least -1000 and at most 1000, got nan"),
        ({"slowdowns": (0.5,)}, r"slowdowns must be at least 1, got \(0.5,\)"),
        ({"thetas": (1000.0,)}, r"thetas must be at least 0.01 and at most 50, got \(1000.0,\)"),
        ({"eps": math.inf}, "eps must be finite and above 0, got inf"),
        ({"seeds": 3}, "seeds must be at least 10"),
        ({"law": "odd"}, "law must be one of symmetric, skewed; got 'odd'"),
    ],
)
def test_a_study_that_makes_no_sense_is_refused(change: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        replace(SMALL, **change)
