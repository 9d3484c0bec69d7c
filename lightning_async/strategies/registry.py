"""Strategies by name, for `Trainer(strategy="clipped_asgd")`.

Adding a method takes its file, one line here, and an overlay in `configs/methods/`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from lightning.pytorch.cli import OptimizerCallable
from lightning.pytorch.strategies import Strategy
from torch.optim import SGD, Optimizer

from lightning_async._compat import StrategyRegistry
from lightning_async.coding import CodeName, DecoderName
from lightning_async.methods import (
    ASGD,
    IASGD,
    LOSCAR,
    ClippedASGD,
    DelayAdaptiveASGD,
    DiLoCo,
    FedBuff,
    GradientCoding,
    LocalSGD,
    MaleniaSGD,
    Method,
    MinibatchSGD,
    ParameterAgnosticRingmaster,
    RennalaSGD,
    ReplicaMethod,
    RingleaderASGD,
    RingmasterASGD,
)
from lightning_async.optim import Muon, TwoTrackAdam
from lightning_async.simulation import BernoulliStragglers, Link, SimulatedCluster, TwoSpeedTimes
from lightning_async.strategies.local_sgd import LocalSGDStrategy
from lightning_async.strategies.parameter_server import ParameterServerStrategy


def default_cluster() -> SimulatedCluster:
    """16 workers, half of them four times slower: the cluster behind the registered names."""
    return SimulatedCluster(TwoSpeedTimes(num_workers=16, slowdown=4.0))


def server(method: Method) -> Strategy:
    """A server method on the default cluster."""
    return ParameterServerStrategy(method, default_cluster())


def muon(method: Method, lr: float = 0.02, nesterov: bool = True) -> Strategy:
    """A server method on the default cluster that steps with Muon, whatever optimizer the module has.

    Steps of the output head are longer: its sign steps are 1 / width per entry.
    """
    optimizer = partial(Muon, lr=lr, nesterov=nesterov, lr_scale={"head": 10.0, "tied": 10.0})
    return ParameterServerStrategy(method, default_cluster(), optimizer)


def fedbuff() -> Strategy:
    """FedBuff on the default cluster, whose server subtracts the mean difference, whatever optimizer the module has."""
    method = FedBuff(buffer=8, local_steps=8, local_lr=0.0625)
    return ParameterServerStrategy(method, default_cluster(), partial(SGD, lr=1.0))


def replicas(method: ReplicaMethod) -> Strategy:
    """A replica method on the workers of the default cluster, with messages that take as long as a slow local step."""
    return LocalSGDStrategy(method, SimulatedCluster(default_cluster().times, Link(latency=4.0)))


def coded(
    code: CodeName = "interval",
    decoder: DecoderName = "own",
    second: DecoderName | None = None,
    optimizer: OptimizerCallable | None = None,
) -> Strategy:
    """Gradient coding with 64 bits a coordinate for 16 workers that miss the deadline, the best with p = 0.05.

    The others follow in steps of 0.05, up to 0.8.
    """
    method = GradientCoding(code, bits=64, quantizer="dither", decoder=decoder, partitions=16, second=second)
    stragglers = BernoulliStragglers([worker / 20 for worker in range(1, 17)])
    return ParameterServerStrategy(method, SimulatedCluster(stragglers), optimizer)


def two_track_adam(parameters: Any) -> Optimizer:
    """Adam that takes a second estimate of the gradient."""
    return TwoTrackAdam(parameters, lr=1e-3, weight_decay=0.0, clip_ratio=1.0)


BASELINE_CODES: dict[str, CodeName] = {
    "gradient_coding_osgc": "osgc",
    "gradient_coding_uncoded": "uncoded",
    "gradient_coding_survivors": "survivors",
    "gradient_coding_sgc": "sgc",
    "gradient_coding_bgc": "bgc",
    "gradient_coding_ehd": "ehd",
    "gradient_coding_frc": "frc",
    "gradient_coding_cyclic": "cyclic",
}
"""Gradient coding with the codes that the optimal one is compared with."""

REGISTERED: dict[str, Callable[[], Strategy]] = {
    "asgd": lambda: server(ASGD()),
    "delay_adaptive_asgd": lambda: server(DelayAdaptiveASGD()),
    "clipped_asgd": lambda: server(ClippedASGD(clip=1.0)),
    "ringmaster_asgd": lambda: server(RingmasterASGD(threshold=36)),
    "rennala_sgd": lambda: server(RennalaSGD(batch=16)),
    "minibatch_sgd": lambda: server(MinibatchSGD()),
    "malenia_sgd": lambda: server(MaleniaSGD()),
    "ringleader_asgd": lambda: server(RingleaderASGD()),
    "iasgd": lambda: server(IASGD()),
    "fedbuff": fedbuff,
    "ringmaster_muon": lambda: muon(RingmasterASGD(threshold=36)),
    "parameter_agnostic_muon": lambda: muon(ParameterAgnosticRingmaster(), lr=0.2, nesterov=False),
    "rennala_muon": lambda: muon(RennalaSGD(batch=16)),
    "delay_adaptive_muon": lambda: muon(DelayAdaptiveASGD()),
    "minibatch_muon": lambda: muon(MinibatchSGD()),
    "loscar": lambda: replicas(LOSCAR(sparsity=0.1, compute_window=8.0)),
    "loscar_blocking": lambda: replicas(LOSCAR(sparsity=0.1, overlap=False, compute_window=8.0)),
    "loscar_overwrite": lambda: replicas(LOSCAR(sparsity=0.1, merge="overwrite", compute_window=8.0)),
    "local_sgd": lambda: replicas(LocalSGD(compute_window=8.0)),
    "diloco": lambda: replicas(DiLoCo(compute_window=8.0)),
    "gradient_coding": coded,
    "gradient_coding_set_aware": lambda: coded(decoder="set_aware"),
    "gradient_coding_two_track": lambda: coded(second="lmmse", optimizer=two_track_adam),
    **{name: partial(coded, code) for name, code in BASELINE_CODES.items()},
}


def register() -> None:
    """Make the names known to Lightning; calling it again changes nothing."""
    for name, make in REGISTERED.items():
        if name not in StrategyRegistry:
            StrategyRegistry.register(name, make, description=f"{name} on 16 simulated workers of different speed")
