"""Local SGD: independent local steps, then a plain average."""

from __future__ import annotations

from lightning_async.methods.merging import Mixing
from lightning_async.methods.replica_method import DenseMethod


class LocalSGD(DenseMethod):
    """Local SGD (Stich 2019, arXiv 1805.09767): after every window of local steps all replicas become their mean.

    Workers wait while the averages travel. With `LOSCAR(sparsity=1.0, compute_window=...)` they go on (CoCoD-SGD).

    Args:
        compute_window: logical time for local steps between two averages, at least the fastest worker's step.

    Raises:
        TypeError: if the window is not a number.
        ValueError: if the window is not positive and finite.

    Example:
        >>> from lightning_async import SimulatedCluster
        >>> from lightning_async.simulation import FixedTimes
        >>> schedule = LocalSGD(compute_window=2.0).steps(SimulatedCluster(FixedTimes([1.0, 2.0])))
        >>> [(step.time, step.jobs[0].worker, step.jobs[0].version) for step, _ in zip(schedule, range(4))]
        [(1.0, 0, 0), (2.0, 0, 0), (2.0, 1, 0), (3.0, 0, 1)]
    """

    def __init__(self, compute_window: float) -> None:
        super().__init__(compute_window)
        self.rule = Mixing(0.0)
