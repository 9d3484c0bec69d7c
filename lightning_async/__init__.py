"""Asynchronous, coded and communication-sparse distributed training for any LightningModule.

Importing this package makes its strategies available by name: `Trainer(strategy="clipped_asgd")`.
"""

from lightning_async.loop import Simulation, simulate
from lightning_async.randomness import job_seed
from lightning_async.replica_loop import ReplicaSimulation
from lightning_async.simulation import Link, SimulatedCluster
from lightning_async.strategies import LocalSGDStrategy, ParameterServerStrategy
from lightning_async.strategies.registry import register

__version__ = "0.1.0"

__all__ = [
    "Link",
    "LocalSGDStrategy",
    "ParameterServerStrategy",
    "ReplicaSimulation",
    "SimulatedCluster",
    "Simulation",
    "job_seed",
    "simulate",
]

register()
