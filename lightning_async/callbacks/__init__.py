"""Callbacks about logical time and about gradient noise."""

from lightning_async.callbacks.gradient_noise import GradientNoise
from lightning_async.callbacks.gradient_noise_monitor import GradientNoiseMonitor
from lightning_async.callbacks.logical_time_limit import LogicalTimeLimit
from lightning_async.callbacks.logical_time_monitor import LogicalTimeMonitor
from lightning_async.callbacks.time_to_target import TimeToTarget
from lightning_async.callbacks.validate_every import ValidateEvery

__all__ = [
    "GradientNoise",
    "GradientNoiseMonitor",
    "LogicalTimeLimit",
    "LogicalTimeMonitor",
    "TimeToTarget",
    "ValidateEvery",
]
