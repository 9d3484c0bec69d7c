"""Iteration bound of clipped ASGD."""

import math

from lightning_async.theory.arguments import count, nonnegative, positive

__all__ = ["clipped_asgd_iterations"]


def clipped_asgd_iterations(
    eps: float,
    sigma: float,
    concurrency: int,
    heterogeneity: float = 0.0,
    failure: float | None = None,
    tail_index: float = 0.5,
) -> float:
    """Order of the iterations after which clipped ASGD has found a gradient of norm eps; no delay is in it.

    Erickson and Johansson 2026 (arXiv 2606.13287): sigma^2/eps^4 + sigma C/eps^3 + C/eps^2, with sigma^2 + zeta^2 and
    sigma + zeta for data that differ between workers. With probability 1 - delta, for sub-Weibull noise
    E exp((|X|/s)^(1/theta)) <= 2, the first term grows by log(1/delta)^(2 theta) and the second by
    log(1/delta)^theta. Constants and further logarithms are left out: it is in units in which the smoothness and
    f(x_0) - inf f are 1.

    Args:
        eps: target of the norm of the gradient (not squared).
        sigma: size of the gradient noise.
        concurrency: C >= 1, gradients computed at a time.
        heterogeneity: zeta, spread of the workers' gradients; 0 if all draw from the same data.
        failure: delta in (0, 1) for the bound in high probability, None for the one in expectation.
        tail_index: theta, 1/2 for Gaussian noise.

    Returns:
        The order of the number of iterations.

    Raises:
        ValueError: for an argument outside its range.

    Example:
        >>> clipped_asgd_iterations(eps=0.5, sigma=1.0, concurrency=4)
        64.0
    """
    eps, sigma = positive("eps", eps), nonnegative("sigma", sigma)
    zeta, theta = nonnegative("heterogeneity", heterogeneity), nonnegative("tail_index", tail_index)
    workers = count("concurrency", concurrency)
    if failure is not None and not 0 < failure < 1:
        raise ValueError(f"failure={failure} must be in (0, 1), or None for the bound in expectation")
    factor: float = 1.0 if failure is None else math.log(1.0 / failure) ** theta
    return (sigma**2 + zeta**2) * factor**2 / eps**4 + (sigma + zeta) * workers * factor / eps**3 + workers / eps**2
