"""What happens in a run, as a digest that can be compared between processes."""

import hashlib
import warnings
from itertools import islice

import torch

from contract_battery.classifier import Classifier
from contract_battery.images import loader
from contract_battery.running import UNEVEN, Journal, quiet
from contract_battery.table import CONTRACTS, SHAPES, Contract
from lightning_async import SimulatedCluster
from lightning_async.data import Dirichlet, Partition
from lightning_async.simulation import FixedTimes, HalfNormalNoise

SHARDED = ("asgd/uniform", "rennala_sgd", "ringleader_asgd", "fedbuff")
"""Methods that are run on data with owners as well."""


def noisy(contract: Contract) -> SimulatedCluster:
    """Random worker times around the uneven ones."""
    times = HalfNormalNoise(FixedTimes([0.5 * time for time in UNEVEN]), scale=0.3)
    return SimulatedCluster(times, contract.cluster().link, seed=7)


def schedule_of(name: str) -> str:
    """Digest of the first two hundred steps."""
    contract = CONTRACTS[name]
    method = contract.method()
    return _digest(list(islice(method.steps(noisy(contract)), 200)))


def run_of(name: str, partition: Partition | None) -> str:
    """Digest of a short training run: events, losses, parameters."""
    contract, journal = CONTRACTS[name], Journal()
    strategy = contract.strategy(contract.method(), noisy(contract), contract.optimizer, partition, seed=3)
    module = Classifier("adamw", dropout=0.3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        quiet(strategy=strategy, max_steps=5, callbacks=[journal]).fit(module, loader(shuffle=True, augment=True))
    return _digest([journal.steps, [value.tolist() for value in module.state_dict().values()]])


def traces() -> dict[str, str]:
    """Everything, for every method of the battery."""
    torch.set_num_threads(1)
    found = {f"schedule/{name}": schedule_of(name) for name in CONTRACTS}
    found |= {f"run/{name}": run_of(name, None) for name in SHAPES}
    found |= {f"sharded run/{name}": run_of(name, Dirichlet(alpha=0.5)) for name in SHARDED}
    return found


def _digest(value: object) -> str:
    return hashlib.sha256(repr(value).encode()).hexdigest()
