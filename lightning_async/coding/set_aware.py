"""Decoding with the knowledge of who arrived and how partition gradients are correlated.

The messages of one round overlap and their gradients are correlated, so each says something about what the lost ones
would have said. Under a prior Gram matrix G = C^2 ((1 - rho) I + rho 11^T) the linear least-squares weights are a small
linear system; weights that stay unbiased for every gradient, whatever rho, are another. Neither costs communication.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from lightning_async.arguments import boolean, random_seed
from lightning_async.coding.codes import GradientCode, effective_code
from lightning_async.coding.decoders import FixedDecoder
from lightning_async.coding.error import MOST_ENUMERATED, arrival_sets, correlated_gram
from lightning_async.coding.validation import (
    BoolArray,
    FloatArray,
    as_arrived,
    as_correlation,
    as_probabilities,
    as_variances,
)

_SAMPLED_SETS = 8192
# Sampled pairs are too few to trust for workers that arrive less often; those keep their fixed weight.
_LEAST_ARRIVAL = 0.01


class SetAwareDecoder:
    """Weights for the set of workers that arrived, from a model of the gradients' correlation.

    With B the effective code, M = B G B^T, h = B G 1, N = M + diag(q_i M_ii), and S the arrived set, the weights on the
    messages scaled to v_i = sum_j B_ij g_j are N_SS^-1 h_S (``unbiased=False``: LMMSE) or N_SS^-1 tau_S with
    E[sum over S] tau = 1 (``unbiased=True``: unbiased for every g, whatever rho). The expectation is over all sets for
    up to 14 uncertain workers and over 8192 sampled sets beyond, where unbiasedness holds up to the sampling error.

    Args:
        code: A code whose decoder has fixed, unbiased weights.
        p: Straggling probabilities that the code was made for.
        q: Relative variances of the quantiser at every worker; infinite where it sends nothing.
        rho: Correlation of two partition gradients, in [-1 / (K - 1), 1]; later `set_correlation`.
        unbiased: Unbiased weights rather than least mean squared error.
        seed: Of the sampled sets.

    Raises:
        TypeError: If an argument is of the wrong kind.
        ValueError: If the code's decoder has no fixed weights, or an argument is out of range.

    Example:
        >>> from lightning_async.coding import optimal_code
        >>> code = optimal_code([3, 3], [0.5, 0.5], partitions=2, kappa=9.0)
        >>> decoder = SetAwareDecoder(code, [0.5, 0.5], [0.06, 0.06], rho=0.9)
        >>> decoder.weights(np.array([True, False])).round(3).tolist()
        [2.596, 0.0]
    """

    def __init__(
        self,
        code: GradientCode,
        p: npt.ArrayLike,
        q: npt.ArrayLike,
        *,
        rho: float = 0.0,
        unbiased: bool = True,
        seed: int = 0,
    ) -> None:
        if not isinstance(code.decoder, FixedDecoder):
            raise ValueError(
                "Set-aware decoding starts from a code with fixed unbiased weights (optimal, OSGC, SGC, uncoded); this "
                f"code is decoded by {type(code.decoder).__name__}."
            )
        self.unbiased = boolean("unbiased", unbiased)
        self.seed = random_seed(seed)
        self.p = as_probabilities(p, len(code.assignment))
        self.effective = effective_code(code.assignment, code.decoder.fixed, self.p)
        self.scale = (1.0 - self.p) * code.decoder.fixed
        variance = as_variances(q, self.p.size)
        self.q = np.where(np.isfinite(variance), variance, 0.0)
        self.used = np.any(self.effective != 0, axis=1) & np.isfinite(variance) & (self.p < 1.0)
        uncertain = self.used & (self.p > 0.0)
        self.sampled = int(uncertain.sum()) > MOST_ENUMERATED
        self.modelled = self.used & (1.0 - self.p >= _LEAST_ARRIVAL) if self.sampled else self.used
        self._mean_inverse: FloatArray | None = None
        self.set_correlation(rho)

    def set_correlation(self, rho: float) -> None:
        """Use another correlation of the partition gradients from now on.

        Raises:
            TypeError: If it is not a number.
            ValueError: If it is not in [-1 / (K - 1), 1].
        """
        partitions = self.effective.shape[1]
        self.rho = as_correlation(rho, partitions)
        gram = correlated_gram(partitions, self.rho)
        noiseless = self.effective @ gram @ self.effective.T
        squares = np.maximum(np.diag(noiseless), 1e-9 * (self.effective**2).sum(axis=1))
        # Exact messages of linearly dependent rows would make the system singular; the floor is far below any error.
        noise = np.maximum(self.q, 1e-7) * squares
        # Everything below is in units of the messages' own standard deviations: loads may differ by many orders.
        self._deviation = np.where(self.modelled, np.sqrt(squares + noise), 1.0)
        system = (noiseless + np.diag(noise)) / np.outer(self._deviation, self._deviation)
        self._system = np.where(np.outer(self.modelled, self.modelled), system, np.eye(len(system)))
        self._square = float(gram.sum())
        self._mean_inverse = None
        if self.unbiased:
            target = np.linalg.solve(self._average_inverse(), self._deviation)
        else:
            target = self.effective @ gram.sum(axis=1) / self._deviation
        self._target = np.where(self.modelled, target, 0.0)

    def weights(self, arrived: BoolArray) -> FloatArray:
        """Weights on the messages m_i, 0 where a worker did not arrive."""
        arrived = as_arrived(arrived, len(self.p))
        sets = arrived & self.modelled
        system = _restrict(self._system, sets)
        solution = np.linalg.solve(system, np.where(sets, self._target, 0.0)[..., None])[..., 0]
        rare = arrived & self.used & ~self.modelled
        alone = np.where(rare, 1.0 / np.where(self.used, 1.0 - self.p, 1.0), 0.0)
        result: FloatArray = (np.where(sets, solution / self._deviation, 0.0) + alone) * self.scale
        return result

    def _average_inverse(self) -> FloatArray:
        """T = E over arrived sets S of N_SS^-1, padded with zeros; the identity for workers outside the model."""
        if self._mean_inverse is None:
            workers = len(self.p)
            total = np.zeros((workers, workers))
            for arrived, probability in self._sets():
                inverse = np.linalg.inv(_restrict(self._system, arrived))
                both = arrived[:, :, None] & arrived[:, None, :]
                total += np.einsum("s,sij->ij", probability, np.where(both, inverse, 0.0))
            outside = np.diag(np.where(self.modelled, 0.0, 1.0))
            self._mean_inverse = total + outside
        return self._mean_inverse

    def model_error(self) -> float:
        """E||ghat - g||^2 under the model (gradients of norm 1 with correlation rho, sets enumerated)."""
        quadratic = float(self._target @ self._average_inverse() @ self._target)
        return quadratic - self._square if self.unbiased else self._square - quadratic

    def _sets(self) -> Iterator[tuple[BoolArray, FloatArray]]:
        if not self.sampled:
            yield from arrival_sets(self.p, self.modelled)
            return
        rng = np.random.default_rng(self.seed)
        arrived: BoolArray = (rng.random((_SAMPLED_SETS, len(self.p))) >= self.p) & self.modelled
        block = 512
        for start in range(0, len(arrived), block):
            part = arrived[start : start + block]
            yield part, np.full(len(part), 1.0 / len(arrived))


def _restrict(system: FloatArray, sets: BoolArray) -> FloatArray:
    """The system on each set, with the identity elsewhere."""
    both = sets[..., :, None] & sets[..., None, :]
    return np.where(both, system, np.eye(system.shape[0]))
