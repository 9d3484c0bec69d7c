"""How heavy the tail of a sample of errors is: the sub-Weibull tail parameter and its uncertainty."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]

_FEWEST_ORDER_STATISTICS = 5


@dataclass(frozen=True)
class SubWeibullTail:
    """A fitted tail P(Y > y) = exp(-(y / scale)^(1 / theta)).

    Attributes:
        theta: tail parameter: 0.5 Gaussian, 1 exponential, larger is heavier.
        interval: lower and upper end of the confidence interval of ``theta``.
        confidence: its level.
        scale: scale of the law, in the unit of the errors.
        num_order_statistics: how many of the largest errors the fit uses.
        num_samples: how many errors there were.
    """

    theta: float
    interval: tuple[float, float]
    confidence: float
    scale: float
    num_order_statistics: int
    num_samples: int

    def survival(self, errors: npt.ArrayLike) -> FloatArray:
        """P(Y > y) under the fitted law; meant for y in the tail that was fitted."""
        ratio = np.asarray(errors, dtype=np.float64) / self.scale
        return np.asarray(np.exp(-(ratio ** (1 / self.theta))), dtype=np.float64)

    def quantile(self, exceedance: npt.ArrayLike) -> FloatArray:
        """The error that is exceeded with the given probability: scale * log(1 / exceedance)^theta."""
        exponent = -np.log(np.asarray(exceedance, dtype=np.float64))
        return np.asarray(self.scale * exponent**self.theta, dtype=np.float64)

    def fitted_errors(self) -> FloatArray:
        """The fitted law at the plotting positions i/m, i = 1..m: what to draw over the errors, sorted largest first.

        The first ``num_order_statistics`` entries are the part that was fitted.
        """
        return self.quantile(np.arange(1, self.num_samples + 1) / self.num_samples)


def estimate_tail(
    errors: npt.ArrayLike,
    num_order_statistics: int | None = None,
    *,
    confidence: float = 0.95,
    num_bootstrap: int = 2000,
    seed: int = 0,
) -> SubWeibullTail:
    """Estimate theta by the log-log slope of the largest order statistics.

    A variable is sub-Weibull with tail parameter theta when E exp((|X|/s)^(1/theta)) <= 2 for some s. For a tail
    P(Y > y) = exp(-(y/s)^(1/theta)) the i-th largest of m errors is near s log(m/i)^theta, so the least-squares slope
    of log Y_(m-i+1) against log log(m/i) over i = 1..k estimates theta (Gardes and Girard 2008 on the Weibull-tail
    coefficient; Vladimirova et al. 2020, arXiv 1905.04955, on sub-Weibull laws).

    The interval is a parametric bootstrap. Under that law log Y = log s + theta log E with E exponential, so
    estimate / theta has a law that depends on m and k only; it is simulated, which gives the interval its stated
    coverage at any sample size, and makes up for the estimate's upward bias (9 % at m = 100, k = 10; below 1 % at
    m = 5000, k = 500). It does not cover the error of taking a tail for sub-Weibull that is not.

    Args:
        errors: m non-negative numbers, for instance norms of gradient errors.
        num_order_statistics: k, in [5, m - 1]; by default a tenth of the errors, at least ten. Smaller looks further
            into the tail, larger is less noisy.
        confidence: level of the interval, in (0, 1).
        num_bootstrap: simulated estimates behind the interval.
        seed: seed of the simulation.

    Raises:
        ValueError: if the errors are not a vector of finite non-negative numbers, of which the k largest are positive
            and not all equal, or if an argument is out of range.

    Example:
        >>> errors = np.random.default_rng(0).exponential(size=5000) ** 2
        >>> low, high = estimate_tail(errors).interval
        >>> low < 2 < high
        True
    """
    largest_first = _checked(errors)
    m = len(largest_first)
    k = max(10, m // 10) if num_order_statistics is None else num_order_statistics
    if not _FEWEST_ORDER_STATISTICS <= k < m:
        raise ValueError(
            f"{k} order statistics of {m} errors: must be in [{_FEWEST_ORDER_STATISTICS}, {m - 1}]; "
            "collect more errors or choose num_order_statistics in that range"
        )
    if not 0 < confidence < 1:
        raise ValueError(f"confidence={confidence}: must be in (0, 1)")
    if num_bootstrap < 100:
        raise ValueError(f"num_bootstrap={num_bootstrap}: an interval needs at least 100 simulated estimates")
    if largest_first[0] == largest_first[k - 1] > 0:
        raise ValueError(
            f"the {k} largest of {m} errors all equal {largest_first[0]}: there is no tail to fit; "
            "raise num_order_statistics or collect more errors"
        )
    if largest_first[k - 1] <= 0:
        raise ValueError(
            f"only {np.count_nonzero(largest_first)} of {m} errors are positive, {k} order statistics are "
            "asked for: lower num_order_statistics"
        )
    positions = np.log(np.log(m / np.arange(1, k + 1)))
    log_errors = np.log(largest_first[:k])
    theta = float(_slopes(log_errors, positions))
    scale = float(np.exp(log_errors.mean() - theta * positions.mean()))
    unit_estimates = _slopes(np.log(_largest_exponentials(m, k, num_bootstrap, np.random.default_rng(seed))), positions)
    low, high = np.quantile(unit_estimates, [(1 - confidence) / 2, (1 + confidence) / 2])
    return SubWeibullTail(theta, (theta / float(high), theta / float(low)), confidence, scale, k, m)


def _checked(errors: npt.ArrayLike) -> FloatArray:
    array = np.asarray(errors, dtype=np.float64)
    if array.ndim != 1:
        raise ValueError(f"errors of shape {array.shape}: pass a vector, one number per error (its norm, or one entry)")
    invalid = ~(np.isfinite(array) & (array >= 0))
    if invalid.any():
        raise ValueError(
            f"{np.count_nonzero(invalid)} of {len(array)} errors are negative or not finite (first: "
            f"{array[invalid][0]}): pass norms or absolute values, without the non-finite ones"
        )
    return np.sort(array)[::-1]


def _slopes(values: FloatArray, positions: FloatArray) -> FloatArray:
    centred = positions - positions.mean()
    return np.asarray(values @ centred / (centred @ centred), dtype=np.float64)


def _largest_exponentials(m: int, k: int, draws: int, rng: np.random.Generator) -> FloatArray:
    """The k largest of m standard exponentials, largest first, shape (draws, k).

    By Renyi's representation, from k + 1 random numbers a draw whatever m is.
    """
    next_largest = -np.log(rng.beta(k + 1, m - k, size=(draws, 1)))
    gaps = rng.exponential(size=(draws, k)) / np.arange(1, k + 1)
    return np.asarray(next_largest + np.cumsum(gaps[:, ::-1], axis=1)[:, ::-1], dtype=np.float64)
