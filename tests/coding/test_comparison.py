from __future__ import annotations

import runpy
from typing import Any

import numpy as np
import pytest

from lightning_async.coding import (
    GradientCode,
    SetAwareDecoder,
    code_error,
    compare_codes,
    correlated_gram,
    cyclic,
    erasure_head,
    optimal_code,
    sampled_error,
    uncoded,
)

# Relative errors at correlations 0, 0.5 and 1; ten workers, p linear from 0.05 to 0.8, dither, crest factor 9.36.
EXPECTED = {
    10: {
        "uncoded, importance weights": (8.02, 1.46, 0.802),
        "EHD d=2 rescaled": (4.08, 1.11, 0.817),
        "OSGC": (3.11, 1.31, 1.13),
        "proposed (interval)": (0.0760, 0.0439, 0.0407),
        "proposed + set-aware unbiased, true rho": (0.0758, 0.0207, 0.0084),
    },
    50: {
        "uncoded, importance weights": (1.20, 0.217, 0.120),
        "EHD d=2 rescaled": (0.438, 0.120, 0.088),
        "OSGC": (0.129, 0.0379, 0.0287),
        "proposed (interval)": (0.1235, 0.0364, 0.0277),
        "proposed + set-aware unbiased, true rho": (0.0915, 0.0118, 0.0001),
    },
}


@pytest.mark.parametrize("budget", [10, 50])
def test_relative_errors_are_the_expected_ones(budget: int) -> None:
    rows = {r.scheme: r.errors for r in compare_codes(np.linspace(0.05, 0.8, 10), budget, partitions=10, kappa=9.36)}
    for scheme, expected in EXPECTED[budget].items():
        # Half a unit of the last digit that is given.
        np.testing.assert_allclose(rows[scheme], expected, rtol=0.006, atol=5e-5, err_msg=scheme)


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setattr("sys.argv", ["coding", *arguments])
    runpy.run_module("lightning_async.coding", run_name="__main__")


def test_the_command_prints_the_table(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    run(monkeypatch, "--budget", "10", "--rho", "0", "1")
    out = capsys.readouterr().out
    line = next(line for line in out.splitlines() if "proposed (interval)" in line)
    assert "0.076" in line
    assert "0.0407" in line
    assert "±" not in out


def test_the_command_says_what_is_estimated(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run(monkeypatch, "--workers", "20", "--budget", "50", "--rho", "0.5")
    out = capsys.readouterr().out
    estimated = {line.split("│")[1].strip() for line in out.splitlines() if "±" in line and "│" in line}
    assert estimated == {"uncoded, mean of survivors", "EHD d=2 rescaled"}
    assert "± standard error over sampled sets" in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--workers", "0"], "--workers must be from 2 to 100, got 0"),
        (["--workers", "1"], "--workers must be from 2 to 100, got 1"),
        (["--p", "0.5", "nan"], "--p must be a number in [0, 1), got nan"),
        (["--p", "0.5", "1"], "--p must be a number in [0, 1), got 1.0"),
        (["--budget", "10", "0"], "--budget must be at least 1, got 0"),
        (["--rho", "3"], "rho must be a number in [-0.111111, 1] for 10 partitions, got 3.0"),
        (["--kappa", "nan"], "--kappa must be a finite number above 0, got nan"),
    ],
)
def test_the_command_refuses_without_a_traceback(
    arguments: list[str], message: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        run(monkeypatch, *arguments)
    captured = capsys.readouterr()
    assert stopped.value.code == 2
    assert captured.err.rstrip().endswith(message)
    assert not captured.out


P = np.linspace(0.1, 0.7, 6)
Q = np.array([0.1, 0.2, 0.0, 0.3, np.inf, 0.2])
PROPOSED = optimal_code([3, 3, 3, 3, 0, 3], P, partitions=6, kappa=9.0)
CODES = {
    "survivors": uncoded(P, partitions=6, importance=False),
    "groups": erasure_head(P, partitions=6),
    "least squares": cyclic(6, partitions=6, tolerance=2),
    "fixed": PROPOSED,
    "set-aware": GradientCode(PROPOSED.assignment, SetAwareDecoder(PROPOSED, P, Q, rho=0.3)),
}


@pytest.mark.parametrize("code", CODES.values(), ids=CODES.keys())
def test_sampled_errors_are_the_exact_ones_within_four_standard_errors(code: GradientCode) -> None:
    gram = correlated_gram(6, 0.3)
    mean, deviation = sampled_error(code, P, Q, gram, seed=2)
    assert 0 < deviation < 0.1 * mean
    assert abs(mean - code_error(code, P, Q, gram)) <= 4 * deviation


def test_errors_beyond_what_is_enumerated_have_standard_errors_where_weights_depend_on_the_set() -> None:
    rows = compare_codes(np.linspace(0.05, 0.8, 16), 64, partitions=16, kappa=9.36, correlations=[0.5])
    assert [row.scheme for row in rows if not row.standard_errors] == [
        "uncoded, importance weights",
        "OSGC",
        "proposed (interval)",
        "proposed (spread)",
    ]
    by_name = {row.scheme: row.errors[0] for row in rows}
    assert by_name["proposed + set-aware unbiased, true rho"] < by_name["proposed (interval)"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"p": [0.5]}, "for at least 2 workers"),
        ({"correlations": [0.0, 2.0]}, "rho must be a number in"),
        ({"correlations": [-0.5]}, "correlations must be above -0.5, where gradients cancel"),
        ({"correlations": []}, "correlations must hold at least one"),
        ({"partitions": 0}, "partitions must be at least 1"),
        ({"budget": 0}, "No worker is useful"),
    ],
)
def test_comparisons_that_cannot_be_made(change: dict[str, Any], message: str) -> None:
    arguments: dict[str, Any] = {"p": [0.1, 0.2, 0.3], "budget": 9, "partitions": 3, "kappa": 9.0} | change
    with pytest.raises(ValueError, match=message):
        compare_codes(**arguments)
