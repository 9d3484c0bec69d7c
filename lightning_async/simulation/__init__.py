"""Simulated workers in logical time: how long a gradient and a message take, and what arrives when."""

from lightning_async.simulation.links import Link
from lightning_async.simulation.power_profiles import (
    ConstantPower,
    OutagePower,
    PiecewisePower,
    Power,
    SinusoidalPower,
)
from lightning_async.simulation.power_times import PowerTimes
from lightning_async.simulation.random_times import HalfNormalNoise, RandomTimes
from lightning_async.simulation.stragglers import BernoulliStragglers, ExponentialStraggling
from lightning_async.simulation.trace_times import TraceTimes
from lightning_async.simulation.worker_times import (
    Duration,
    FixedTimes,
    LinearTimes,
    SqrtTimes,
    TwoSpeedTimes,
    UniformTimes,
    WorkerTimes,
)

__all__ = [
    "BernoulliStragglers",
    "ConstantPower",
    "Duration",
    "ExponentialStraggling",
    "FixedTimes",
    "HalfNormalNoise",
    "LinearTimes",
    "Link",
    "OutagePower",
    "PiecewisePower",
    "Power",
    "PowerTimes",
    "RandomTimes",
    "SinusoidalPower",
    "SqrtTimes",
    "TraceTimes",
    "TwoSpeedTimes",
    "UniformTimes",
    "WorkerTimes",
]
