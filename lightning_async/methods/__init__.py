"""Server algorithms, one per file."""

from lightning_async.methods.asgd import ASGD
from lightning_async.methods.averaging import AveragingMethod
from lightning_async.methods.base import Direction, Gradient, Method
from lightning_async.methods.clipped_asgd import ClippedASGD
from lightning_async.methods.delay_adaptive_asgd import DelayAdaptiveASGD
from lightning_async.methods.minibatch_sgd import MinibatchSGD
from lightning_async.methods.rennala_sgd import RennalaSGD
from lightning_async.methods.ringmaster_asgd import RingmasterASGD

__all__ = [
    "ASGD",
    "AveragingMethod",
    "ClippedASGD",
    "DelayAdaptiveASGD",
    "Direction",
    "Gradient",
    "Method",
    "MinibatchSGD",
    "RennalaSGD",
    "RingmasterASGD",
]
