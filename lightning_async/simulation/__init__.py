"""Simulated workers in logical time: how long a gradient and a message take, and what arrives when."""

from lightning_async.simulation.cluster import SimulatedCluster
from lightning_async.simulation.links import Link
from lightning_async.simulation.power_profiles import (
    ConstantPower,
    OutagePower,
    PiecewisePower,
    Power,
    SinusoidalPower,
)
from lightning_async.simulation.power_times import PowerTimes
from lightning_async.simulation.primitives import Cluster, NoArrivalError
from lightning_async.simulation.random_times import HalfNormalNoise, RandomTimes
from lightning_async.simulation.records import Arrival, Job, Step
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
    "Arrival",
    "BernoulliStragglers",
    "Cluster",
    "ConstantPower",
    "Duration",
    "ExponentialStraggling",
    "FixedTimes",
    "HalfNormalNoise",
    "Job",
    "LinearTimes",
    "Link",
    "NoArrivalError",
    "OutagePower",
    "PiecewisePower",
    "Power",
    "PowerTimes",
    "RandomTimes",
    "SimulatedCluster",
    "SinusoidalPower",
    "SqrtTimes",
    "Step",
    "TraceTimes",
    "TwoSpeedTimes",
    "UniformTimes",
    "WorkerTimes",
]
