"""What decoders refuse: sets that are not boolean, and what they are made from."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from lightning_async.coding import (
    DECODER_NAMES,
    CorrelationEstimator,
    CrestFactorAverage,
    Decoder,
    FixedDecoder,
    SetAwareDecoder,
    cyclic,
    erasure_head,
    make_decoder,
    optimal_code,
    uncoded,
)

NAN, INF = float("nan"), float("inf")
P = [0.5, 0.5]
CODE = optimal_code([3, 3], P, partitions=2, kappa=9.0)
DECODERS: dict[str, Decoder] = {
    "fixed": CODE.decoder,
    "survivors": uncoded(P, partitions=2, importance=False).decoder,
    "groups": erasure_head(P, partitions=2).decoder,
    "least squares": cyclic(2, partitions=2).decoder,
    "set-aware": SetAwareDecoder(CODE, P, 0.1),
}
every_decoder = pytest.mark.parametrize("decoder", DECODERS.values(), ids=DECODERS.keys())


@every_decoder
@pytest.mark.parametrize("arrived", [[0, 1], np.array([0.0, 1.0]), [[0], [1]]])
def test_sets_that_are_not_boolean(decoder: Decoder, arrived: Any) -> None:
    with pytest.raises(TypeError, match="arrived must be a boolean array, True for a worker that arrived"):
        decoder.weights(arrived)


@every_decoder
@pytest.mark.parametrize("shape", [(), (1,), (3,), (2, 1)])
def test_sets_of_another_number_of_workers(decoder: Decoder, shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"arrived must be \(\.\.\., 2\), one entry per worker; got shape"):
        decoder.weights(np.ones(shape, dtype=bool))


@every_decoder
@pytest.mark.parametrize("shape", [(2,), (0, 2), (3, 2), (2, 3, 2)])
def test_weights_have_the_shape_of_the_sets(decoder: Decoder, shape: tuple[int, ...]) -> None:
    assert decoder.weights(np.ones(shape, dtype=bool)).shape == shape


@pytest.mark.parametrize("arrived", [[1, 0], [True], [[True, False]]])
def test_partitions_of_what_is_no_set_of_workers(arrived: Any) -> None:
    with pytest.raises((TypeError, ValueError), match="arrived must be"):
        CODE.partitions_of(arrived)


@pytest.mark.parametrize("name", DECODER_NAMES)
@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"q": [-1.0, 0.1]}, ValueError, "q must hold relative variances of at least 0"),
        ({"q": [NAN, 0.1]}, ValueError, "q must hold relative variances"),
        ({"q": [0.1, 0.1, 0.1]}, ValueError, r"q must be one relative variance or one per worker \(2\)"),
        ({"q": "0.1"}, TypeError, "q must be a number or an array of numbers"),
        ({"p": [0.5]}, ValueError, r"one straggling probability per worker \(2\); got shape \(1,\)"),
        ({"p": [0.5, 0.5, 0.5]}, ValueError, r"one straggling probability per worker \(2\)"),
        ({"p": [0.5, NAN]}, ValueError, r"p\[1\] = nan is not a straggling probability"),
        ({"rho": -1.1}, ValueError, r"rho must be a number in \[-1, 1\] for 2 partitions"),
        ({"rho": NAN}, ValueError, "rho must be"),
        ({"strength": INF}, ValueError, "strength must be a finite number above 0"),
    ],
)
def test_decoders_by_name_from_what_does_not_fit(
    name: str, change: dict[str, Any], error: type[Exception], message: str
) -> None:
    arguments: dict[str, Any] = {"p": P, "q": 0.1} | change
    with pytest.raises(error, match=message):
        make_decoder(name, CODE, **arguments)


@pytest.mark.parametrize("name", DECODER_NAMES)
def test_a_worker_that_sends_nothing_may_have_an_infinite_variance(name: str) -> None:
    weights = make_decoder(name, CODE, P, [0.1, INF]).weights(np.array([True, False]))
    assert weights[0] > 0
    assert weights[1] == 0


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"unbiased": "no"}, TypeError, "unbiased must be True or False"),
        ({"seed": -1}, ValueError, "seed must be"),
        ({"p": [0.5]}, ValueError, r"one straggling probability per worker \(2\)"),
        ({"q": NAN}, ValueError, "q must hold"),
    ],
)
def test_set_aware_decoders_from_what_does_not_fit(
    change: dict[str, Any], error: type[Exception], message: str
) -> None:
    arguments: dict[str, Any] = {"p": P, "q": 0.1} | change
    with pytest.raises(error, match=message):
        SetAwareDecoder(CODE, **arguments)


@pytest.mark.parametrize("strength", [0.0, NAN, INF])
def test_strengths_that_are_not_positive_and_finite(strength: float) -> None:
    with pytest.raises(ValueError, match=r"strength must be a finite number above 0 \(large values approach no"):
        FixedDecoder(np.ones(2)).regularized(np.array(P), strength)


def test_the_largest_strength_is_no_shrinking() -> None:
    p = np.array([0.1, 0.2])
    assert FixedDecoder(np.array([1.0, 2.0])).regularized(p, 1.7e308).fixed.tolist() == [1.0, 2.0]


@pytest.mark.parametrize("utility", [-1.0, NAN])
def test_utilities_that_are_none(utility: float) -> None:
    with pytest.raises(ValueError, match="utility must be a number of at least 0"):
        FixedDecoder(np.ones(2)).minimum_mse(utility)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: CrestFactorAverage(0), ValueError, "workers must be at least 1"),
        (lambda: CrestFactorAverage(2, decay=1.0), ValueError, r"decay must be a number in \[0, 1\), got 1.0"),
        (lambda: CrestFactorAverage(2, initial=INF), ValueError, "initial must be a finite number above 0"),
        (lambda: CrestFactorAverage(2).update(-1, 9.0), ValueError, "worker must be from 0 to 1, got -1"),
        (lambda: CrestFactorAverage(2).update(2, 9.0), ValueError, "worker must be from 0 to 1, got 2"),
        (lambda: CrestFactorAverage(2).update(0, NAN), ValueError, "kappa must be a finite number .* got nan"),
        (lambda: CrestFactorAverage(2).update(0, -1.0), ValueError, "kappa must be"),
        (
            lambda: CrestFactorAverage(2).load_state_dict(CrestFactorAverage(3).state_dict()),
            ValueError,
            "the state is that of 3 workers, and not of 2",
        ),
        (lambda: CorrelationEstimator(np.eye(2), 0.1, decay=NAN), ValueError, r"decay must be a number in \[0, 1\)"),
        (lambda: CorrelationEstimator(np.eye(2), 0.1, initial=NAN), ValueError, "initial must be"),
        (lambda: CorrelationEstimator(np.ones(2), 0.1), ValueError, r"effective must be \(workers, partitions\)"),
        (lambda: CorrelationEstimator(np.eye(2), [-0.1, 0.0]), ValueError, "q must hold relative variances"),
        (
            lambda: CorrelationEstimator(np.eye(2), 0.1).update(np.array([0, 1]), np.eye(3)),
            ValueError,
            r"products must be \(2, 2\), one row per worker that arrived; got shape \(3, 3\)",
        ),
        (
            lambda: CorrelationEstimator(np.eye(2), 0.1).load_state_dict({"normal": [0.0] * 4, "moments": [0.0]}),
            ValueError,
            "the state must hold 4 normal and 2 moments; got 4 and 1",
        ),
    ],
)
def test_what_averages_are_told(make: Callable[[], Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        make()


def test_a_report_that_is_refused_leaves_no_trace() -> None:
    average = CrestFactorAverage(2)
    average.update(0, 4.0)
    with pytest.raises(ValueError, match="kappa"):
        average.update(0, NAN)
    assert average.common == 4.0
