"""Estimating from the received messages what the decoder needs to know about the gradients."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from lightning_async.arguments import array, count, real
from lightning_async.coding.validation import FloatArray, IntArray, as_variances


class CorrelationEstimator:
    """Online estimate of rho, the correlation of two partition gradients.

    Inner products of received messages satisfy E<Q(v_i), Q(v_l)> = a (B B^T)_il + b s_i s_l with a = C^2 (1 - rho) and
    b = C^2 rho (times 1 + q_i for i = l). Weighted least squares over pairs, relative to s_i s_l, with the normal
    equations averaged exponentially over rounds; rho = b / (a + b), kept within [-1 / (K - 1) + 0.01, 0.95].

    Args:
        effective: Effective code B, (workers, partitions).
        q: Relative variances of the quantiser at every worker.
        decay: Weight of the past in the average.
        initial: rho before there is enough data to tell.

    Raises:
        TypeError: If an argument is of the wrong kind.
        ValueError: If ``decay`` is not in [0, 1), or ``effective`` or ``q`` do not fit.

    Example:
        >>> estimator = CorrelationEstimator(np.eye(2), [0.0, 0.0])
        >>> estimator.update(np.array([0, 1]), np.array([[1.0, 0.5], [0.5, 1.0]]))
        >>> round(estimator.rho, 6)
        0.5
    """

    def __init__(self, effective: FloatArray, q: npt.ArrayLike, *, decay: float = 0.95, initial: float = 0.0) -> None:
        self.decay = real("decay", decay, at_least=0.0, below=1.0)
        self.initial = real("initial", initial)
        self._normal = np.zeros((2, 2))
        self._moments = np.zeros(2)
        self.set_code(effective, q)

    def set_code(self, effective: FloatArray, q: npt.ArrayLike) -> None:
        """Continue with another code: what was learnt about the gradients stays valid.

        Raises:
            TypeError: If an argument does not hold numbers.
            ValueError: If ``effective`` is not a matrix, or ``q`` are no variances of its workers.
        """
        effective = array("effective", effective)
        if effective.ndim != 2:
            raise ValueError(f"effective must be (workers, partitions); got shape {effective.shape}.")
        self._overlap = effective @ effective.T
        self._sums = effective.sum(axis=1)
        self._q = as_variances(q, len(effective))
        self._partitions = effective.shape[1]

    def update(self, workers: IntArray, products: FloatArray) -> None:
        """Learn from one round.

        Args:
            workers: Workers whose messages arrived.
            products: Inner products of their messages, scaled to v_i = sum_j B_ij g_j. A round in which one is not
                finite is passed over.

        Raises:
            ValueError: If there is not one row and one column of products per worker.
        """
        if products.shape != (len(workers), len(workers)):
            raise ValueError(
                f"products must be ({len(workers)}, {len(workers)}), one row per worker that arrived; got shape "
                f"{products.shape}."
            )
        sums = self._sums[workers]
        keep = np.abs(sums) > 1e-12
        workers, sums, products = workers[keep], sums[keep], products[np.ix_(keep, keep)]
        if not workers.size or not np.all(np.isfinite(products)):
            return
        rows, columns = np.triu_indices(len(workers))
        scale = sums[rows] * sums[columns]
        noise = np.where(rows == columns, 1.0 + self._q[workers[rows]], 1.0)
        response = products[rows, columns] / (scale * noise)
        features = np.stack([self._overlap[workers[rows], workers[columns]] / scale, np.ones(len(rows))], axis=1)
        # A noisy square says less than a cross product.
        weight = 1.0 / noise**2
        self._normal = self.decay * self._normal + features.T @ (weight[:, None] * features)
        self._moments = self.decay * self._moments + features.T @ (weight * response)

    @property
    def rho(self) -> float:
        """Current estimate."""
        lowest = -1.0 / max(self._partitions - 1, 1) + 0.01
        trace = float(np.trace(self._normal))
        if trace == 0 or np.linalg.det(self._normal) <= 1e-10 * trace**2:
            return float(np.clip(self.initial, lowest, 0.95))
        a, b = np.linalg.solve(self._normal, self._moments)
        return float(np.clip(b / (a + b), lowest, 0.95)) if a + b > 0 else float(np.clip(self.initial, lowest, 0.95))

    def state_dict(self) -> dict[str, list[float]]:
        """Averages, for a checkpoint."""
        return {"normal": self._normal.ravel().tolist(), "moments": self._moments.tolist()}

    def load_state_dict(self, state: dict[str, list[float]]) -> None:
        """Restore the averages.

        Raises:
            ValueError: If there are not as many numbers as `state_dict` returns.
        """
        normal, moments = np.array(state["normal"]), np.array(state["moments"])
        if normal.shape != (4,) or moments.shape != (2,):
            raise ValueError(f"the state must hold 4 normal and 2 moments; got {normal.size} and {moments.size}")
        self._normal = normal.reshape(2, 2)
        self._moments = moments


class CrestFactorAverage:
    """Exponential average of the squared crest factors that workers report, one float a message.

    Args:
        workers: Number of workers.
        initial: Value before a worker has reported; about 9.4 for Gaussian buckets of 512.
        decay: Weight of the past.

    Raises:
        TypeError: If an argument is of the wrong kind.
        ValueError: If ``decay`` is not in [0, 1) or ``initial`` is not positive and finite.

    Example:
        >>> average = CrestFactorAverage(2)
        >>> average.update(0, 4.0)
        >>> average.kappa.tolist()
        [4.0, 9.4]
    """

    def __init__(self, workers: int, *, initial: float = 9.4, decay: float = 0.95) -> None:
        self.decay = real("decay", decay, at_least=0.0, below=1.0)
        self.kappa = np.full(count("workers", workers), real("initial", initial, above=0.0))
        self._reported = np.zeros(len(self.kappa), dtype=bool)

    def update(self, worker: int, kappa: float) -> None:
        """Take in one report; the first of a worker replaces the initial value.

        Raises:
            TypeError: If an argument is of the wrong kind.
            ValueError: If there is no such worker, or ``kappa`` is negative or not finite.
        """
        worker = count("worker", worker, at_least=0, at_most=len(self.kappa) - 1)
        kappa = real("kappa", kappa, at_least=0.0)
        decay = self.decay if self._reported[worker] else 0.0
        self.kappa[worker] = decay * self.kappa[worker] + (1.0 - decay) * kappa
        self._reported[worker] = True

    @property
    def common(self) -> float:
        """Mean over the workers that have reported; the initial value before."""
        return float(self.kappa[self._reported].mean() if self._reported.any() else self.kappa.mean())

    def state_dict(self) -> dict[str, list[float]]:
        """Averages, for a checkpoint."""
        return {"kappa": self.kappa.tolist(), "reported": self._reported.astype(float).tolist()}

    def load_state_dict(self, state: dict[str, list[float]]) -> None:
        """Restore the averages.

        Raises:
            ValueError: If the state is that of another number of workers.
        """
        kappa, reported = np.array(state["kappa"]), np.array(state["reported"]) > 0
        if not kappa.shape == reported.shape == self.kappa.shape:
            raise ValueError(f"the state is that of {kappa.size} workers, and not of {self.kappa.size}")
        self.kappa = kappa
        self._reported = reported
