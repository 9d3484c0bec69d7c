"""Lightning strategies that drive the methods."""

from lightning_async.strategies.local_sgd import LocalSGDStrategy
from lightning_async.strategies.parameter_server import ParameterServerStrategy

__all__ = ["LocalSGDStrategy", "ParameterServerStrategy"]
