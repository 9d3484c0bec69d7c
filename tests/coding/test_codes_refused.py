"""What formulas, loads and codes refuse."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from lightning_async.coding import (
    FixedDecoder,
    GradientCode,
    bgc,
    code_error,
    code_from_effective,
    combine,
    correlated_gram,
    cyclic,
    erasure_head,
    expected_error,
    make_code,
    optimal_code,
    osgc,
    proportional_loads,
    relative_variance,
    sgc,
    uncoded,
)

NAN, INF = float("nan"), float("inf")
P = [0.5, 0.5]
EYE = np.eye(2)
CODES = {"fixed weights": optimal_code([3, 3], P, partitions=2, kappa=9.0), "groups": erasure_head(P, partitions=2)}


@pytest.mark.parametrize("code", CODES.values(), ids=CODES.keys())
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"gram": -EYE}, "gram has the eigenvalue -1, but inner products of gradients have none below 0"),
        ({"gram": [[1.0, 2.0], [2.0, 1.0]]}, "gram has the eigenvalue -1"),
        ({"gram": [[1.0, 0.5], [0.4, 1.0]]}, "gram must be symmetric"),
        ({"gram": [[1.0, NAN], [NAN, 1.0]]}, "gram holds a value that is not finite"),
        ({"q": -0.9}, "q must hold relative variances of at least 0"),
        ({"q": [NAN, 0.0]}, "q must hold relative variances"),
        ({"p": [0.5, 0.5, 0.5]}, "p needs one|B must be"),
        ({"p": [0.5, -0.5]}, r"p\[1\] = -0.5 is not a straggling probability"),
    ],
)
def test_errors_of_what_cannot_be(code: Any, change: dict[str, Any], message: str) -> None:
    arguments: dict[str, Any] = {"p": P, "q": 0.1, "gram": EYE} | change
    with pytest.raises(ValueError, match=message):
        code_error(code, **arguments)
    with pytest.raises(ValueError, match=message):
        expected_error(EYE, **arguments)


def test_errors_of_an_effective_code_that_is_not_finite() -> None:
    with pytest.raises(ValueError, match="B holds a value that is not finite"):
        expected_error([[1.0, NAN], [0.0, 1.0]], P, 0.1, EYE)


def test_a_gram_matrix_of_dependent_gradients_in_single_precision_is_one() -> None:
    gradients = torch.randn(20, 3, generator=torch.Generator().manual_seed(0)) * 1e3
    gram = (gradients @ gradients.T).numpy()
    assert expected_error(np.eye(20), np.full(20, 0.5), 0.0, gram) == pytest.approx(float(np.trace(gram)), rel=1e-6)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: correlated_gram(2, 5.0), ValueError, r"rho must be a number in \[-1, 1\] for 2 partitions, got 5.0"),
        (lambda: correlated_gram(5, -0.3), ValueError, r"rho must be a number in \[-0.25, 1\] for 5 partitions"),
        (lambda: correlated_gram(2, NAN), ValueError, "rho must be"),
        (lambda: correlated_gram(0, 0.0), ValueError, "partitions must be at least 1"),
        (lambda: correlated_gram(2, 0.0, scale=INF), ValueError, "scale must be a finite number"),
        (lambda: relative_variance(-3, 9.0, "dither"), ValueError, r"bits must be from 0 \(not used\) to 16; got -3"),
        (lambda: relative_variance([3, NAN], 9.0, "none"), ValueError, "bits must be from 0"),
        (lambda: relative_variance(99, 9.0, "qsgd"), ValueError, "bits must be from 0"),
        (lambda: relative_variance("3", 9.0, "dither"), TypeError, "bits must be a number or an array"),
        (lambda: relative_variance(3, -9.0, "dither"), ValueError, "kappa must be finite and not negative; got -9"),
        (lambda: relative_variance(3, [9.0, NAN], "none"), ValueError, "kappa must be finite"),
        (lambda: proportional_loads(np.array([NAN, 2.0]), 3), ValueError, "utilities must be a vector .* got .nan, 2"),
        (lambda: proportional_loads(np.array([-1.0, 2.0]), 3), ValueError, "utilities must be a vector"),
        (lambda: proportional_loads(np.ones((2, 2)), 3), ValueError, "utilities must be a vector"),
        (lambda: proportional_loads(np.ones(2), 3, cap=NAN), ValueError, "cap must be a number above 0, or None"),
        (lambda: code_from_effective([[1.0, NAN], [0.0, 1.0]], P), ValueError, "effective must be .* finite numbers"),
        (lambda: code_from_effective([1.0, 1.0], P), ValueError, r"got shape \(2,\)"),
        (lambda: code_from_effective(EYE, [0.5]), ValueError, r"p needs one straggling probability per worker \(2\)"),
        (lambda: code_from_effective([[1.0, -1.0], [0.0, 2.0]], P), ValueError, "Row 0 of effective sums to 0"),
        (lambda: code_from_effective([[1.0, -1.0], [0.0, 2.0]], [1.0, 0.5]), ValueError, "Worker 0 never arrives"),
        (lambda: GradientCode(np.ones(2), FixedDecoder(np.ones(2))), ValueError, r"assignment must be .* shape \(2,\)"),
        (lambda: GradientCode(EYE * NAN, FixedDecoder(np.ones(2))), ValueError, "assignment must be .* finite"),
        (lambda: FixedDecoder(np.array([1.0, INF])), ValueError, "fixed must be a vector with one finite weight"),
        (lambda: FixedDecoder(EYE), ValueError, "fixed must be a vector"),
        (lambda: combine({2: torch.ones(1)}, np.ones(2)), ValueError, "message of worker 2, but weights of 2 workers"),
        (lambda: bgc([1.0, 1.0], partitions=4), ValueError, "Every worker has p = 1, so no weight is unbiased"),
        (lambda: uncoded(P, partitions=2, importance="no"), TypeError, "importance must be True or False"),
        (lambda: bgc(P, partitions=2, rescale=1), TypeError, "rescale must be True or False"),
        (lambda: erasure_head(P, partitions=2, rescale="no"), TypeError, "rescale must be True or False"),
        (lambda: sgc(P, partitions=2, seed=-1), ValueError, "seed must be"),
        (lambda: cyclic(3, partitions=2, seed=0.5), TypeError, "seed must be"),
        (lambda: bgc(P, partitions=2, seed=None), TypeError, "seed must be"),
        (lambda: osgc(P, partitions=2, fill="x"), ValueError, "fill must be one of 'interval', .* got 'x'"),
        (lambda: osgc(P, partitions=2, rotations=0), ValueError, "rotations must be at least 1"),
        (
            lambda: make_code("frc", [3, 3], P, partitions=2, kappa=9.0, replication=0),
            ValueError,
            "replication must be at least 1, got 0",
        ),
    ],
)
def test_arguments_that_cannot_be(make: Callable[[], Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        make()


def test_published_bernoulli_weights_do_not_depend_on_who_arrives() -> None:
    decoder = bgc([1.0, 1.0], partitions=4, rescale=False).decoder
    assert decoder.weights(np.array([True, True])).tolist() == [1.0, 1.0]
