"""The harmonic-mean time against rounds of whole steps."""

import math

import numpy as np
import pytest

from lightning_async.theory import loscar_time

N = 8
PROFILES = {
    "uniform": np.ones(N),
    "sqrt": np.sqrt(np.arange(1, N + 1)),
    "linear": np.arange(1.0, N + 1),
    "one straggler": np.array([1.0] * (N - 1) + [7.5]),
}


def _whole_steps(time: float, duration: float) -> int:
    return math.floor(time / duration * (1 + 1e-9))


def _time_by_rounds(times: np.ndarray, steps: float, compute: float, communicate: float, share: float) -> float:
    """Rounds in which a worker starts no step that would end after its phase, but makes at least one."""
    useful, now = 0.0, 0.0
    while useful < steps:
        useful += np.mean([max(1, _whole_steps(compute, t)) + share * _whole_steps(communicate, t) for t in times])
        now += max(compute, times.max()) + communicate
    return now


@pytest.mark.parametrize("times", PROFILES.values(), ids=PROFILES.keys())
@pytest.mark.parametrize(("variant", "share"), [("corrected", 1.0), ("overwrite", 0.7), ("blocking", 0.0)])
@pytest.mark.parametrize(("compute", "communicate"), [(8.0, 8.0), (8.0, 40.0), (40.0, 8.0)])
def test_rounds_of_whole_steps_take_at_least_the_time_and_at_most_twice_as_long_plus_a_round(
    times, variant, share, compute, communicate
):
    predicted = loscar_time(times, 200, compute, communicate, sparsity=0.3, variant=variant)
    measured = _time_by_rounds(times, 200, compute, communicate, share)
    assert predicted * (1 - 1e-9) <= measured <= 2 * predicted + compute + communicate


@pytest.mark.parametrize("times", PROFILES.values(), ids=PROFILES.keys())
def test_long_phases_reach_the_harmonic_mean(times):
    predicted = loscar_time(times, 50_000, 2_000.0, 3_000.0)
    assert _time_by_rounds(times, 50_000, 2_000.0, 3_000.0, 1.0) == pytest.approx(predicted, rel=0.12)


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
        ({"compute_window": 0.0}, "compute_window=0.0"),
        ({"communication_time": -1.0}, "communication_time=-1.0"),
        ({"sparsity": 1.5}, r"sparsity=1.5 must be in \[0, 1\]"),
        ({"variant": "naive"}, "variant='naive'.*overwrite"),
        ({"steps": -1}, "steps=-1"),
        ({"times": []}, "give one positive time"),
    ],
)
def test_impossible_arguments_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        loscar_time(**{"times": [1.0], "steps": 1, "compute_window": 1.0, "communication_time": 1.0, **arguments})
