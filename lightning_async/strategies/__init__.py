"""Lightning strategies that drive the methods."""

from lightning_async.strategies.parameter_server import ParameterServerStrategy

__all__ = ["ParameterServerStrategy"]
