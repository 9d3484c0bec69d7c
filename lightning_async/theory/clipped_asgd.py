"""Iteration bound of clipped ASGD."""

import math

from lightning_async.arguments import count, real

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
        TypeError: if an argument is of the wrong kind.
        ValueError: for an argument outside its range.

    Example:
        >>> clipped_asgd_iterations(eps=0.5, sigma=1.0, concurrency=4)
        64.0
    """
    eps, sigma = real("eps", eps, above=0.0), real("sigma", sigma, at_least=0.0)
    zeta, theta = real("heterogeneity", heterogeneity, at_least=0.0), real("tail_index", tail_index, at_least=0.0)
    workers = count("concurrency", concurrency)
    factor = 1.0
    if failure is not None:
        note = ", or None for the bound in expectation"
        factor = math.log(1.0 / real("failure", failure, above=0.0, below=1.0, note=note)) ** theta
    return (sigma**2 + zeta**2) * factor**2 / eps**4 + (sigma + zeta) * workers * factor / eps**3 + workers / eps**2
