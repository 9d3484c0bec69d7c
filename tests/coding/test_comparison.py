from __future__ import annotations

import runpy

import numpy as np
import pytest

from lightning_async.coding import compare_codes

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


def test_the_command_prints_the_table(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setattr("sys.argv", ["coding", "--budget", "10", "--rho", "0", "1"])
    runpy.run_module("lightning_async.coding", run_name="__main__")
    line = next(line for line in capsys.readouterr().out.splitlines() if "proposed (interval)" in line)
    assert "0.076" in line
    assert "0.0407" in line
