"""What the constructors of the methods refuse, and what they accept."""

import math

import numpy as np
import pytest

from lightning_async.methods import (
    ASGD,
    LOSCAR,
    ClippedASGD,
    DelayAdaptiveASGD,
    GradientCoding,
    LocalSGD,
    MaleniaSGD,
    MinibatchSGD,
    ParameterAgnosticRingmaster,
    RennalaSGD,
    RingleaderASGD,
    RingmasterASGD,
)
from lightning_async.simulation import FixedTimes, PowerTimes, SimulatedCluster


@pytest.mark.parametrize("clip", [0, 0.0, -1.0, math.nan, "1", None, True])
def test_a_clipping_radius_is_a_number_above_zero(clip: object) -> None:
    with pytest.raises(error_of(clip, float), match="clip must be a number above 0, got"):
        ClippedASGD(clip)


@pytest.mark.parametrize("threshold", [0, -3, 2.5, True, None, math.nan])
def test_a_threshold_is_an_integer_from_one(threshold: object) -> None:
    with pytest.raises(error_of(threshold, int), match=r'threshold must be .*at least 1, or "adaptive", got'):
        RingmasterASGD(threshold)


def test_the_only_threshold_with_a_name_is_adaptive() -> None:
    with pytest.raises(ValueError, match=r'an integer of at least 1, or "adaptive", got \'adaptiv\''):
        RingmasterASGD("adaptiv")


@pytest.mark.parametrize("batch", [0, -1, 1.0, True, "16"])
def test_a_batch_is_an_integer_from_one(batch: object) -> None:
    with pytest.raises(error_of(batch, int), match=r"batch must be .*at least 1, got"):
        RennalaSGD(batch)


@pytest.mark.parametrize("target", [0, -1.0, math.nan, math.inf, True, "16"])
def test_a_target_is_a_finite_number_above_zero(target: object) -> None:
    with pytest.raises(error_of(target, float), match=r"target must be a finite number above 0, or None .*, got"):
        MaleniaSGD(target)


@pytest.mark.parametrize("concurrency", [0, 1.5, False])
def test_a_concurrency_is_an_integer_from_one(concurrency: object) -> None:
    with pytest.raises(error_of(concurrency, int), match=r"concurrency must be .*at least 1, or None .*, got"):
        DelayAdaptiveASGD(concurrency=concurrency)


@pytest.mark.parametrize("make", [lambda: ASGD("fastest"), lambda: ClippedASGD(1.0, dispatch="fastest")])
def test_an_unknown_dispatch_is_refused_with_the_known_ones(make) -> None:
    with pytest.raises(ValueError, match="one of 'finisher', 'uniform', got 'fastest'"):
        make()


def test_an_unknown_rule_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match="one of 'scale', 'drop', got 'skip'"):
        DelayAdaptiveASGD(rule="skip")


def test_numbers_of_numpy_are_numbers() -> None:
    assert ClippedASGD(np.float32(0.5)).clip == 0.5
    assert RingmasterASGD(np.int64(3)).threshold == 3
    assert type(RennalaSGD(np.int64(3)).batch) is int


def test_the_default_concurrency_is_not_known_before_the_schedule_has_begun() -> None:
    with pytest.raises(RuntimeError, match="number of workers"):
        DelayAdaptiveASGD("drop").max_delay(0)


@pytest.mark.parametrize(
    ("method", "shown"),
    [
        (ClippedASGD(1), "ClippedASGD(clip=1.0, dispatch='finisher')"),
        (RingmasterASGD("adaptive", stops=False), "RingmasterASGD(threshold='adaptive', stops=False)"),
        (MinibatchSGD(), "MinibatchSGD()"),
        (MaleniaSGD(4), "MaleniaSGD(target=4.0)"),
        (RingleaderASGD(), "RingleaderASGD()"),
    ],
)
def test_the_repr_of_a_method_is_its_arguments(method: object, shown: str) -> None:
    assert repr(method) == shown


def test_methods_are_equal_when_their_arguments_are_whatever_they_have_done_since() -> None:
    used = RingleaderASGD()
    next(used.steps(SimulatedCluster(FixedTimes([1.0, 2.0]))))
    assert used == RingleaderASGD()
    assert ClippedASGD(1.0) != ClippedASGD(2.0)
    assert ClippedASGD(1.0) != ASGD()


def test_a_state_is_not_taken_by_a_method_that_has_none() -> None:
    with pytest.raises(ValueError, match="ASGD has no state, but was given"):
        ASGD().load_state_dict({"table": 1})


@pytest.mark.parametrize("value", ["no", 1, None, np.True_])
@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("stops", lambda value: RingmasterASGD(2, stops=value)),
        ("stops", lambda value: ParameterAgnosticRingmaster(stops=value)),
        ("stops", lambda value: RennalaSGD(2, stops=value)),
        ("overlap", lambda value: LOSCAR(0.5, overlap=value, compute_window=1.0)),
        ("rescale", lambda value: coding(rescale=value)),
        ("counted", lambda value: coding(counted=value)),
        ("measure_error", lambda value: coding(measure_error=value)),
    ],
)
def test_a_flag_is_true_or_false_and_nothing_that_counts_as_it(name: str, make, value: object) -> None:
    with pytest.raises(TypeError, match=f"{name} must be True or False, got"):
        make(value)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rho": "x"}, r"rho must be a number in \[-0.5, 1\] for 3 partitions, or None, got 'x'"),
        ({"rho": True}, "rho must be a number in .* or None, got True"),
        ({"bits": "12"}, "bits must be an integer of at least 1 .* got '12'"),
        ({"bits": [4, 4.0]}, r"bits\[1\] must be an integer of at least 0, got 4.0"),
        ({"partitions": 3.0}, "partitions must be an integer of at least 1, got 3.0"),
        ({"zmax": True}, "zmax must be an integer from 1 to 16, .* got True"),
        ({"code": None}, "code must be one of 'interval', .* got None"),
    ],
)
def test_a_code_is_made_of_numbers_and_names(changes: dict[str, object], message: str) -> None:
    with pytest.raises(TypeError, match=message):
        coding(**changes)


@pytest.mark.parametrize("name", ["deadline", "kappa"])
def test_a_code_is_made_of_finite_numbers(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} must be a finite number above 0, got inf"):
        coding(**{name: math.inf})


def test_numbers_that_floats_cannot_hold_are_refused_as_others_are() -> None:
    with pytest.raises(ValueError, match="deadline must be a finite number above 0, got an integer of 1329 bits"):
        coding(deadline=10**400)
    with pytest.raises(ValueError, match="clip must be a number above 0"):
        ClippedASGD(-(10**400))


def test_a_round_of_workers_that_never_finish_is_refused_without_advice_that_cannot_be_followed() -> None:
    cluster = SimulatedCluster(PowerTimes([0.0, 0.0]))
    with pytest.raises(ValueError, match=r"no worker ever finishes its first local step .* use times that are finite"):
        LocalSGD(compute_window=1.0).rounds(cluster)


def error_of(value: object, kind: type) -> type[Exception]:
    """What refuses a value: of the right kind it is out of range."""
    return ValueError if type(value) in (int, kind) else TypeError


def coding(**changes: object) -> GradientCoding:
    arguments = {"code": "interval", "bits": 12, "quantizer": "dither", "decoder": "own", "partitions": 3}
    return GradientCoding(**{**arguments, **changes})
