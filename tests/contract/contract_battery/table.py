"""What the battery asks of every registered method.

A new method joins with a line in `CONTRACTS`. A point that has no meaning for it is declared there, with the reason.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from math import isqrt
from typing import Any

from torch import nn
from torch.optim import Optimizer

from contract_battery import reference
from contract_battery.reference_replicas import local_rounds
from contract_battery.running import LATENCY, UNEVEN, cluster_with_latency, uneven_cluster
from lightning_async import ParameterServerStrategy
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
from lightning_async.methods.dispatch import UniformDispatch
from lightning_async.optim import Muon
from lightning_async.simulation import SimulatedCluster, Step
from lightning_async.strategies import LocalSGDStrategy
from lightning_async.strategies.scheduled import ScheduledStrategy

Loop = Callable[[reference.Server, tuple[float, ...], int], None]


@dataclass(frozen=True)
class Contract:
    """How one method is put to the test.

    Attributes:
        method: an instance that has something to do on the four uneven workers.
        loop: the same on prescribed times, written by hand.
        alone: an instance that is plain training when there is one worker; None if there is no such thing.
        why_not_alone: the reason, if there is none.
        strategy: the strategy that drives it.
        cluster: the four uneven workers.
        optimizer: what the strategy makes of the module in place of the module's own optimizer; None if it does not.
    """

    method: Callable[[], Method]
    loop: Loop
    alone: Callable[[], Method] | None
    why_not_alone: str = ""
    strategy: type[ScheduledStrategy] = ParameterServerStrategy
    cluster: Callable[[], SimulatedCluster] = uneven_cluster
    optimizer: Callable[[nn.Module], Optimizer] | None = None

    def build(self, **arguments: Any) -> ScheduledStrategy:
        """The method on the uneven workers."""
        return self.strategy(self.method(), self.cluster(), **{"optimizer": self.optimizer, **arguments})

    def schedule(self, steps: int) -> list[Step]:
        """The first steps of its schedule."""
        return list(islice(self.method().steps(self.cluster()), steps))

    @property
    def jobs_per_step(self) -> int | None:
        """Gradients in every step; None if that varies."""
        jobs = self.method().jobs_per_step(len(UNEVEN))
        return None if jobs is None else jobs * self.local_steps

    @property
    def local_steps(self) -> int:
        """Gradients in a job."""
        return getattr(self.method(), "local_steps", 1)

    def jobs(self, steps: int) -> int:
        """Gradients in the first steps, all together."""
        return sum(len(step.jobs) for step in self.schedule(steps)) * self.local_steps


def _uniform(server: reference.Server, times: tuple[float, ...], steps: int, clip: float = 1e9) -> None:
    draws = list(islice(UniformDispatch(uneven_cluster()), steps))
    reference.uniform(server, times, steps, draws, clip)


WINDOW = 1.0
"""Compute window on the uneven workers: everybody makes one step before a message."""


def _replicas(method: Callable[..., ReplicaMethod], alone: bool = True, why: str = "", **arguments: Any) -> Contract:
    """Contract of a replica method; `arguments` say the same to the loop by hand."""

    def loop(server: reference.Server, times: tuple[float, ...], steps: int) -> None:
        mine = method(compute_window=WINDOW)
        coordinates = lambda round, d: mine.indices(round, d, seed=0)  # noqa: E731
        local_rounds(server, times, steps, WINDOW, LATENCY, coordinates, **arguments)

    return Contract(
        partial(method, compute_window=WINDOW),
        loop,
        alone=partial(method, compute_window=ALONE_TIME) if alone else None,
        why_not_alone=why,
        strategy=LocalSGDStrategy,
        cluster=cluster_with_latency,
    )


def _adaptive(k: int) -> int:
    return isqrt(k - 1) + 1 if k else 1


ALONE_TIME = 1.5
"""How long a step takes the only worker of point 1."""

CONTRACTS: dict[str, Contract] = {
    # <registered name>, or <registered name>/<variant>
    "asgd": Contract(ASGD, reference.finisher_restarts, alone=ASGD),
    "asgd/uniform": Contract(lambda: ASGD(dispatch="uniform"), _uniform, alone=lambda: ASGD(dispatch="uniform")),
    "delay_adaptive_asgd": Contract(
        DelayAdaptiveASGD,
        partial(reference.finisher_restarts, scale=lambda delay: min(1.0, len(UNEVEN) / max(delay, 1))),
        alone=DelayAdaptiveASGD,
    ),
    "delay_adaptive_asgd/drop": Contract(
        lambda: DelayAdaptiveASGD(rule="drop", concurrency=3),
        partial(reference.finisher_restarts, used=lambda delay, k: delay <= 3),
        alone=lambda: DelayAdaptiveASGD(rule="drop"),
    ),
    "clipped_asgd": Contract(
        lambda: ClippedASGD(clip=0.3),
        partial(reference.finisher_restarts, clip=0.3),
        alone=lambda: ClippedASGD(clip=1e6),
    ),
    "clipped_asgd/uniform": Contract(
        lambda: ClippedASGD(clip=0.3, dispatch="uniform"),
        partial(_uniform, clip=0.3),
        alone=lambda: ClippedASGD(clip=1e6, dispatch="uniform"),
    ),
    "ringmaster_asgd": Contract(
        lambda: RingmasterASGD(threshold=3),
        partial(reference.ringmaster_with_stops, threshold=lambda k: 3),
        alone=lambda: RingmasterASGD(threshold=1),
    ),
    "ringmaster_asgd/without-stops": Contract(
        lambda: RingmasterASGD(threshold=3, stops=False),
        partial(reference.finisher_restarts, used=lambda delay, k: delay < 3),
        alone=lambda: RingmasterASGD(threshold=1, stops=False),
    ),
    "ringmaster_asgd/adaptive": Contract(
        lambda: RingmasterASGD(threshold="adaptive"),
        partial(reference.ringmaster_with_stops, threshold=_adaptive),
        alone=lambda: RingmasterASGD(threshold="adaptive"),
    ),
    "rennala_sgd": Contract(
        lambda: RennalaSGD(batch=3), partial(reference.rennala, batch=3), alone=lambda: RennalaSGD(batch=1)
    ),
    "rennala_sgd/without-stops": Contract(
        lambda: RennalaSGD(batch=3, stops=False),
        partial(reference.rennala_without_stops, batch=3),
        alone=lambda: RennalaSGD(batch=1, stops=False),
    ),
    "minibatch_sgd": Contract(MinibatchSGD, reference.minibatch, alone=MinibatchSGD),
    "ringleader_asgd": Contract(RingleaderASGD, reference.ringleader, alone=RingleaderASGD),
    "malenia_sgd": Contract(MaleniaSGD, partial(reference.malenia, target=4), alone=MaleniaSGD),
    "malenia_sgd/target": Contract(
        lambda: MaleniaSGD(target=6.5), partial(reference.malenia, target=6.5), alone=lambda: MaleniaSGD(target=0.5)
    ),
    "iasgd": Contract(IASGD, reference.iasgd, alone=IASGD),
    "fedbuff": Contract(
        partial(FedBuff, buffer=2, local_steps=3, local_lr=0.125),
        partial(reference.fedbuff, buffer=2, local_steps=3, local_lr=0.125),
        alone=None,
        why_not_alone="what is sent is the difference of two iterates",
    ),
}


def _muon(same: str) -> Contract:
    """Contract of a method that differs from another one only in the optimizer."""
    return replace(CONTRACTS[same], optimizer=partial(Muon, lr=0.02))


CONTRACTS |= {
    "ringmaster_muon": _muon("ringmaster_asgd"),
    "rennala_muon": _muon("rennala_sgd"),
    "delay_adaptive_muon": _muon("delay_adaptive_asgd"),
    "minibatch_muon": _muon("minibatch_sgd"),
    "parameter_agnostic_muon": Contract(
        ParameterAgnosticRingmaster,
        partial(
            reference.ringmaster_with_stops,
            threshold=_adaptive,
            scale=lambda k: (k + 1) ** -0.75,
            momentum=lambda k: 1 - max(1, k) ** -0.5,
        ),
        alone=None,
        why_not_alone="the step number sets step size and momentum also where nobody is late",
        optimizer=partial(Muon, lr=0.2, nesterov=False),
    ),
    # The deadline is too early for the slowest worker: that is known, so that the code does without it.
    "gradient_coding": Contract(
        partial(GradientCoding, "interval", 4, "none", "own", partitions=4, deadline=2.5, measure_error=True),
        partial(reference.coded, deadline=2.5, holders=(0, 0, 1, 2)),
        alone=partial(GradientCoding, "interval", 1, "none", "own", partitions=1, deadline=ALONE_TIME),
    ),
    "gradient_coding/survivors": Contract(
        partial(GradientCoding, "survivors", 4, "none", "own", partitions=4, deadline=2.5, measure_error=True),
        partial(reference.coded, deadline=2.5, holders=(0, 1, 2, 3), used=3),
        alone=partial(GradientCoding, "survivors", 1, "none", "own", partitions=1, deadline=ALONE_TIME),
    ),
    "loscar": _replicas(partial(LOSCAR, sparsity=0.3), overlap=True),
    "loscar/mixing": _replicas(partial(LOSCAR, sparsity=0.3, merge=0.25), overlap=True, weight=0.25),
    "loscar_blocking": _replicas(partial(LOSCAR, sparsity=0.3, overlap=False)),
    "loscar_overwrite": _replicas(partial(LOSCAR, sparsity=0.3, merge="overwrite"), overlap=True, weight=0.0),
    "local_sgd": _replicas(LocalSGD, weight=0.0),
    "diloco": _replicas(
        partial(DiLoCo, outer_lr=0.5),
        weight=0.0,
        outer=(0.5, 0.9),
        alone=False,
        why="after every round the outer optimizer moves even a single replica to another place",
    ),
}

ALONE = {name: contract for name, contract in CONTRACTS.items() if contract.alone is not None}

# Methods that bring an optimizer go through the points about schedules, delays and resuming; what a Trainer does
# besides is asked of the others, which may use the optimizer of the module.
OWN = {name: contract for name, contract in CONTRACTS.items() if contract.optimizer is None}
REGISTERED_OWN = {name: contract for name, contract in OWN.items() if "/" not in name}
SERVER_ONES = {name: c for name, c in REGISTERED_OWN.items() if c.strategy is ParameterServerStrategy}


def _shapes() -> list[str]:
    """The first name of every strategy and number of gradients in a step."""
    shapes: dict[object, str] = {}
    for name, contract in REGISTERED_OWN.items():
        shapes.setdefault((contract.strategy, contract.jobs_per_step), name)
    return list(shapes.values())


SHAPES = _shapes()
"""Methods that differ in what Trainer and loader have to do with them: enough for points about these alone."""

COVERED: dict[str, str] = {
    # Registered names without a line of their own: the same method, with arguments that its own tests are about.
    "gradient_coding_set_aware": "gradient_coding",
    "gradient_coding_two_track": "gradient_coding",
    "gradient_coding_osgc": "gradient_coding",
    "gradient_coding_uncoded": "gradient_coding",
    "gradient_coding_survivors": "gradient_coding",
    "gradient_coding_sgc": "gradient_coding",
    "gradient_coding_bgc": "gradient_coding",
    "gradient_coding_ehd": "gradient_coding",
    "gradient_coding_frc": "gradient_coding",
    "gradient_coding_cyclic": "gradient_coding",
}
