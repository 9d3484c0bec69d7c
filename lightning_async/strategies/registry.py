"""Strategies by name, for `Trainer(strategy="clipped_asgd")`.

Adding a method takes its file, one line here, and an overlay in `configs/methods/`.
"""

from __future__ import annotations

from collections.abc import Callable

from lightning.pytorch.strategies import Strategy

from lightning_async._compat import StrategyRegistry
from lightning_async.methods import (
    ASGD,
    ClippedASGD,
    DelayAdaptiveASGD,
    Method,
    MinibatchSGD,
    RennalaSGD,
    RingmasterASGD,
)
from lightning_async.simulation import SimulatedCluster, TwoSpeedTimes
from lightning_async.strategies.parameter_server import ParameterServerStrategy


def default_cluster() -> SimulatedCluster:
    """16 workers, half of them four times slower: the cluster behind the registered names."""
    return SimulatedCluster(TwoSpeedTimes(num_workers=16, slowdown=4.0))


def server(method: Method) -> Strategy:
    """A server method on the default cluster."""
    return ParameterServerStrategy(method, default_cluster())


REGISTERED: dict[str, Callable[[], Strategy]] = {
    "asgd": lambda: server(ASGD()),
    "delay_adaptive_asgd": lambda: server(DelayAdaptiveASGD()),
    "clipped_asgd": lambda: server(ClippedASGD(clip=1.0)),
    "ringmaster_asgd": lambda: server(RingmasterASGD(threshold=36)),
    "rennala_sgd": lambda: server(RennalaSGD(batch=16)),
    "minibatch_sgd": lambda: server(MinibatchSGD()),
}


def register() -> None:
    """Make the names known to Lightning; calling it again changes nothing."""
    for name, make in REGISTERED.items():
        if name not in StrategyRegistry:
            StrategyRegistry.register(name, make, description=f"{name} on 16 simulated workers, half 4 times slower")
