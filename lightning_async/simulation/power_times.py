"""The universal computation model: workers whose power changes over time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from typing_extensions import override

from lightning_async.arguments import real
from lightning_async.simulation.power_profiles import ConstantPower, Power
from lightning_async.simulation.worker_times import Duration, WorkerTimes


class PowerTimes(WorkerTimes):
    """A job started at s ends at the t where the worker's power, integrated from s to t, is 1.

    The universal computation model (Sadiev et al. 2026, arXiv 2605.18174, for the time complexity under it).

    Args:
        powers: for each worker its profile, or a number for constant power, in gradients per unit of logical time.

    Raises:
        TypeError: if an entry is neither a profile nor a number.
        ValueError: if there is no worker, or a power is negative or not finite.

    Example:
        >>> from lightning_async.simulation import OutagePower
        >>> times = PowerTimes([2.0, OutagePower([(1.0, 4.0)])])
        >>> times.duration(worker=0, job=0), times.duration(worker=1, job=0, start=0.5)
        (0.5, 4.0)
    """

    def __init__(self, powers: Sequence[Power | float]) -> None:
        if isinstance(powers, Power) or not isinstance(powers, Iterable):
            raise TypeError(
                f"powers must be a sequence with one power profile or number for each worker, got {powers!r}"
            )
        self.powers = tuple(
            power if isinstance(power, Power) else ConstantPower(real(f"powers[{worker}]", power, at_least=0.0))
            for worker, power in enumerate(powers)
        )
        if not self.powers:
            raise ValueError("powers is empty: give one power profile for each worker, for at least one worker")
        self.num_workers = len(self.powers)
        self.depends_on_start = not all(isinstance(power, ConstantPower) for power in self.powers)
        if not self.depends_on_start:
            self.constant = tuple(power.duration(0.0) for power in self.powers)

    @override
    def sampler(self, seed: int) -> Duration:
        durations = [power.duration for power in self.powers]

        def duration(worker: int, job: int, start: float) -> float:
            return durations[worker](start)

        return duration
