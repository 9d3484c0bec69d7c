"""The harmonic-mean time against the rounds of LOSCAR."""

import numpy as np
import pytest

from lightning_async.methods.loscar import LOSCAR
from lightning_async.simulation import FixedTimes, Link, SimulatedCluster
from lightning_async.theory import loscar_time

# At p = 0.3 overwriting loses the 0.3 of the coordinates that were sent.
KEPT_SHARE = {"corrected": 1.0, "overwrite": 0.7, "blocking": 0.0}
N = 8
PROFILES = {
    "uniform": np.ones(N),
    "sqrt": np.sqrt(np.arange(1, N + 1)),
    "linear": np.arange(1.0, N + 1),
    "one straggler": np.array([1.0] * (N - 1) + [7.5]),
}


def _measured(times: np.ndarray, steps: float, compute: float, communicate: float, variant: str) -> float:
    """End of the round in which the average model has made that many useful steps."""
    method = LOSCAR(0.3, overlap=variant != "blocking", compute_window=compute)
    useful = 0.0
    for done in method.rounds(SimulatedCluster(FixedTimes(times), Link(latency=communicate))):
        useful += np.mean(done.before) + KEPT_SHARE[variant] * np.mean(done.during)
        if useful >= steps:
            return done.end
    raise AssertionError("rounds do not end")


@pytest.mark.parametrize("times", PROFILES.values(), ids=PROFILES.keys())
@pytest.mark.parametrize("variant", KEPT_SHARE)
@pytest.mark.parametrize(("compute", "communicate"), [(8.0, 8.0), (8.0, 40.0), (40.0, 8.0)])
def test_rounds_take_at_least_the_time_and_at_most_twice_as_long_plus_a_round(times, variant, compute, communicate):
    predicted = loscar_time(times, 200, compute, communicate, sparsity=0.3, variant=variant)
    measured = _measured(times, 200, compute, communicate, variant)
    assert predicted * (1 - 1e-9) <= measured <= 2 * predicted + compute + communicate


@pytest.mark.parametrize("times", PROFILES.values(), ids=PROFILES.keys())
def test_long_phases_reach_the_harmonic_mean(times):
    predicted = loscar_time(times, 5_000, 200.0, 300.0)
    assert _measured(times, 5_000, 200.0, 300.0, "corrected") <= 1.03 * predicted + 500.0


def test_overlap_hides_communication_entirely():
    assert loscar_time([1.0, 3.0], 10, 4.0, 4.0) == loscar_time([1.0, 3.0], 10, 4.0, 400.0)


def test_overwriting_ranges_from_blocking_to_corrected():
    def time(p: float, variant: str) -> float:
        return loscar_time([1.0, 3.0], 10, 4.0, 16.0, p, variant)

    assert time(1.0, "overwrite") == time(1.0, "blocking")
    assert time(0.0, "overwrite") == time(0.0, "corrected")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"compute_window": 0.0}, "compute_window must be a finite number above 0, got 0.0"),
        ({"communication_time": -1.0}, "communication_time must be a finite number of at least 0, got -1.0"),
        ({"sparsity": 1.5}, r"sparsity must be a number in \[0, 1\], the share of coordinates that is sent, got 1.5"),
        ({"variant": "naive"}, "variant must be one of 'corrected', 'overwrite', 'blocking', got 'naive'"),
        ({"steps": -1}, "steps must be a finite number of at least 0, got -1"),
        ({"times": []}, "give one positive time"),
    ],
)
def test_impossible_arguments_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        loscar_time(**{"times": [1.0], "steps": 1, "compute_window": 1.0, "communication_time": 1.0, **arguments})
