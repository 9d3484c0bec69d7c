"""Algorithms, one per file: server methods, and methods that train replicas."""

from lightning_async.methods.asgd import ASGD
from lightning_async.methods.averaging import AveragingMethod
from lightning_async.methods.base import Direction, Gradient, Method
from lightning_async.methods.clipped_asgd import ClippedASGD
from lightning_async.methods.delay_adaptive_asgd import DelayAdaptiveASGD
from lightning_async.methods.diloco import DiLoCo
from lightning_async.methods.fedbuff import FedBuff
from lightning_async.methods.gradient_coding import GradientCoding
from lightning_async.methods.iasgd import IASGD
from lightning_async.methods.local_sgd import LocalSGD
from lightning_async.methods.loscar import LOSCAR
from lightning_async.methods.malenia_sgd import MaleniaSGD
from lightning_async.methods.masks import Indices, RandomMask
from lightning_async.methods.merging import Corrected, MergeRule, Mixing
from lightning_async.methods.minibatch_sgd import MinibatchSGD
from lightning_async.methods.nonfinite import NonFiniteGradientError
from lightning_async.methods.parameter_agnostic_ringmaster import ParameterAgnosticRingmaster
from lightning_async.methods.rennala_sgd import RennalaSGD
from lightning_async.methods.replica_method import DenseMethod, ReplicaMethod
from lightning_async.methods.ringleader_asgd import RingleaderASGD
from lightning_async.methods.ringmaster_asgd import RingmasterASGD
from lightning_async.methods.rounds import Round

__all__ = [
    "ASGD",
    "IASGD",
    "LOSCAR",
    "AveragingMethod",
    "ClippedASGD",
    "Corrected",
    "DelayAdaptiveASGD",
    "DenseMethod",
    "DiLoCo",
    "Direction",
    "FedBuff",
    "Gradient",
    "GradientCoding",
    "Indices",
    "LocalSGD",
    "MaleniaSGD",
    "MergeRule",
    "Method",
    "MinibatchSGD",
    "Mixing",
    "NonFiniteGradientError",
    "ParameterAgnosticRingmaster",
    "RandomMask",
    "RennalaSGD",
    "ReplicaMethod",
    "RingleaderASGD",
    "RingmasterASGD",
    "Round",
]
