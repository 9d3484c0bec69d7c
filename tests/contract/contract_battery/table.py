"""What the battery asks of every registered method.

A new method joins with a line in `CONTRACTS`. A point that has no meaning for it is declared there, with the reason.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import islice
from math import isqrt

from contract_battery import reference
from contract_battery.running import UNEVEN, uneven_cluster
from lightning_async import ParameterServerStrategy
from lightning_async.methods import (
    ASGD,
    ClippedASGD,
    DelayAdaptiveASGD,
    Method,
    MinibatchSGD,
    RennalaSGD,
    RingmasterASGD,
)
from lightning_async.methods.dispatch import UniformDispatch
from lightning_async.strategies.simulated import SimulatedStrategy

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
    """

    method: Callable[[], Method]
    loop: Loop
    alone: Callable[[], Method] | None
    why_not_alone: str = ""
    strategy: type[SimulatedStrategy] = ParameterServerStrategy


def _uniform(server: reference.Server, times: tuple[float, ...], steps: int, clip: float = 1e9) -> None:
    draws = list(islice(UniformDispatch(uneven_cluster()), steps))
    reference.uniform(server, times, steps, draws, clip)


def _adaptive(k: int) -> int:
    return isqrt(k - 1) + 1 if k else 1


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
}

ALONE = {name: contract for name, contract in CONTRACTS.items() if contract.alone is not None}
REGISTERED_ONES = {name: contract for name, contract in CONTRACTS.items() if "/" not in name}
