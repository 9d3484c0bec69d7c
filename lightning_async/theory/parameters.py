"""Fixed parameters of Ringmaster and Rennala from the constants of a problem."""

import math
from dataclasses import dataclass

from lightning_async.arguments import count, real

__all__ = ["LMOParameters", "rennala_batch", "ringmaster_lmo_parameters", "ringmaster_threshold"]


@dataclass(frozen=True)
class LMOParameters:
    """Fixed parameters of Ringmaster LMO.

    Attributes:
        alpha: weight of the new gradient in the momentum, in (0, 1]; an optimizer's ``momentum`` is 1 - alpha.
        threshold: R: gradients of delay below 1/alpha are used, which for integer delays is delay < ceil(1/alpha).
        step_size: eta, length of a step in the norm of the LMO.
    """

    alpha: float
    threshold: int
    step_size: float


def ringmaster_lmo_parameters(
    gap: float, smoothness: float, sigma: float, updates: int, growth: float = 0.0, rho: float = 1.0
) -> LMOParameters:
    """alpha, R and eta for K updates of Ringmaster LMO (Sadiev et al. 2026, arXiv 2605.18174).

    alpha = min{1, sqrt(Delta L0) / (rho sigma sqrt K)}, R = 1/alpha, and eta is the smallest of sqrt(Delta / (L0 K)),
    1/L1, sqrt(Delta L0) / (L1 rho sigma sqrt K) and Delta^(3/4) / (L0^(1/4) (rho sigma)^(1/2) K^(3/4)).

    Args:
        gap: Delta = f(x_0) - inf f.
        smoothness: L0 of (L0, L1)-smoothness in the norm of the LMO.
        sigma: standard deviation of a gradient, in the Euclidean norm.
        updates: K >= 1.
        growth: L1, 0 for a smooth function.
        rho: factor from the Euclidean to the dual norm of the LMO.

    Returns:
        The parameters.

    Raises:
        TypeError: if an argument is of the wrong kind.
        ValueError: for a constant outside its range.

    Example:
        >>> ringmaster_lmo_parameters(gap=1.0, smoothness=1.0, sigma=1.0, updates=100)
        LMOParameters(alpha=0.1, threshold=10, step_size=0.03162277660168379)
    """
    gap, smoothness, rho = (
        real("gap", gap, above=0.0),
        real("smoothness", smoothness, above=0.0),
        real("rho", rho, above=0.0),
    )
    sigma, growth = real("sigma", sigma, at_least=0.0), real("growth", growth, at_least=0.0)
    root_updates = math.sqrt(count("updates", updates))
    noise = rho * sigma * root_updates
    curvature = math.sqrt(gap * smoothness)
    alpha = 1.0 if noise <= curvature else curvature / noise
    step_sizes = [math.sqrt(gap / smoothness) / root_updates]
    if noise > 0:
        step_sizes.append(gap**0.75 / (smoothness**0.25 * math.sqrt(noise) * root_updates))
    if growth > 0:
        step_sizes.append(1.0 / growth)
        if noise > 0:
            step_sizes.append(curvature / growth / noise)
    # The quotient is exact for thresholds that are integers on paper.
    threshold = math.ceil(1.0 / alpha * (1.0 - 1e-12))
    return LMOParameters(alpha, threshold, min(step_sizes))


def ringmaster_threshold(sigma: float, eps: float) -> int:
    """R = max(1, ceil(sigma^2 / eps)) for Ringmaster ASGD (Maranjyan, Tyurin and Richtarik 2025, arXiv 2501.16168).

    The order is the paper's; with it the time complexity is optimal up to a constant.

    Args:
        sigma: standard deviation of a gradient.
        eps: target of the *squared* norm of the gradient.

    Returns:
        R.

    Raises:
        TypeError: if an argument is of the wrong kind.
        ValueError: for a constant outside its range.

    Example:
        >>> ringmaster_threshold(sigma=2.0, eps=0.5)
        8
    """
    return max(1, math.ceil(real("sigma", sigma, at_least=0.0) ** 2 / real("eps", eps, above=0.0)))


def rennala_batch(sigma: float, eps: float) -> int:
    """B = max(1, ceil(sigma^2 / eps)) for Rennala SGD (Tyurin and Richtarik 2023, arXiv 2305.12387).

    Args:
        sigma: standard deviation of a gradient.
        eps: target of the *squared* norm of the gradient.

    Returns:
        B: a mean of B gradients has a variance of at most eps.

    Raises:
        TypeError: if an argument is of the wrong kind.
        ValueError: for a constant outside its range.

    Example:
        >>> rennala_batch(sigma=0.0, eps=0.5)
        1
    """
    return ringmaster_threshold(sigma, eps)
