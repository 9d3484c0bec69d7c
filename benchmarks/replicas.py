"""Exchanging replicas, and local steps: against a dense average, and against a plain Trainer."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

import torch
from rich.table import Table
from torch import Tensor, nn
from torchvision.models import resnet18

from benchmarks.timing import compare
from benchmarks.turns import Competitor, in_turns, ratio
from lightning_async import SimulatedCluster
from lightning_async.methods import LOSCAR, LocalSGD, ReplicaMethod
from lightning_async.methods.flat import FlatReplicas
from lightning_async.methods.message import Message
from lightning_async.simulation import Link, UniformTimes
from lightning_async.strategies import LocalSGDStrategy
from recipes.fashion_cnn import FashionCNN

REPLICAS = 16
SLICES = 15


def _dense_average(flat: FlatReplicas) -> Callable[[], None]:
    """What local SGD does: the mean of the replicas, written to all of them."""
    method = LocalSGD(1.0)
    return lambda: Message(flat, None).merge(method)


def _exchange(flat: FlatReplicas, sparsity: float, snapshot: bool, masks: bool) -> Callable[[], None]:
    """Corrected merge of all replicas, of a snapshot or at once; with or without drawing the mask."""
    method = LOSCAR(sparsity, compute_window=1.0)
    # No mask is used twice, so that its coordinates are never in a cache.
    drawn = {round: None if masks else method.indices(round, flat.num_coordinates, 0) for round in range(SLICES + 3)}
    rounds = iter(drawn)
    memory: Tensor | None = None

    def work() -> None:
        nonlocal memory
        round = next(rounds)
        indices = method.indices(round, flat.num_coordinates, 0) if masks else drawn[round]
        message = Message(flat, indices, memory)
        if snapshot:
            message.snapshot()
        message.merge(method)
        memory = message.memory

    return work


def merges() -> Table:
    """Exchanges of 16 replicas of ResNet-18's 11 M parameters, over a dense average of the same replicas.

    With one thread, in CPU time, and with as many as a Trainer uses, one for every core, in wall-clock time.
    """
    flat = FlatReplicas(list(resnet18().parameters()), REPLICAS)
    flat.rows.normal_()
    average = _dense_average(flat)
    table = Table(title=f"An exchange of {REPLICAS} replicas of {flat.num_coordinates:,} parameters")
    for column in ("threads", "p", "exchange", "ms", "average, ms", "share", "quartiles"):
        table.add_column(column, justify="left" if column == "exchange" else "right")
    exchanges = {"at once": (False, False), "snapshot + merge": (True, False), "mask + snapshot + merge": (True, True)}
    for threads in sorted({1, os.cpu_count() or 1}):
        torch.set_num_threads(threads)
        clock = time.process_time if threads == 1 else time.perf_counter
        for sparsity in (0.1, 0.01, 0.001):
            for name, (snapshot, masks) in exchanges.items():
                timed = compare(average, _exchange(flat, sparsity, snapshot, masks), slices=SLICES, clock=clock)
                table.add_row(
                    str(threads),
                    f"{sparsity:g}",
                    name,
                    f"{1e3 * timed.theirs:.1f}",
                    f"{1e3 * timed.ours:.1f}",
                    f"{timed.ratio:.1%}",
                    f"{timed.low:.1%}, {timed.high:.1%}",
                )
    torch.set_num_threads(1)
    return table


class _Wide(FashionCNN):
    """Large enough that a step takes what a step of a small network takes."""

    def __init__(self) -> None:
        super().__init__(lr=0.03)
        self.network = nn.Sequential(
            nn.Conv2d(1, 32, 5, padding=2), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(32, 64, 3, padding=1), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(2),
            nn.Flatten(), nn.Linear(64 * 49, 10),
        )  # fmt: skip


def steps() -> Table:
    """Time of a local step over a step of a plain Trainer; medians over quiet rounds of the ratio within a round."""
    methods: dict[str, Callable[[], ReplicaMethod]] = {
        "never communicating": lambda: LOSCAR(0.0, compute_window=4.0),
        "LOSCAR, p = 0.01": lambda: LOSCAR(0.01, compute_window=4.0),
        "LOSCAR, p = 1": lambda: LOSCAR(1.0, compute_window=4.0),
        "local SGD": lambda: LocalSGD(4.0),
    }
    table = Table(title=f"A local step, over a plain Trainer's step (Fashion-MNIST, {REPLICAS} replicas)")
    for column in ("network", "method", "ratio", "quartiles"):
        table.add_column(column, justify="left" if column in ("network", "method") else "right")
    networks = {"9,226 parameters": (lambda: FashionCNN(lr=0.03), 60), "51,000 parameters": (_Wide, 30)}
    for network, (module, rounds) in networks.items():
        competitors = {"plain": Competitor()} | {name: Competitor(_strategy(make)) for name, make in methods.items()}
        timed = in_turns(competitors, module, rounds)
        for name in methods:
            table.add_row(network, name, *ratio(timed, name, "plain"))
    return table


def _strategy(method: Callable[[], ReplicaMethod]) -> Callable[[], LocalSGDStrategy]:
    return lambda: LocalSGDStrategy(method(), SimulatedCluster(UniformTimes(REPLICAS), Link(latency=4.0)))


def run() -> Table:
    """Both tables, one under the other."""
    torch.set_num_threads(1)
    both = Table.grid()
    both.add_row(merges())
    both.add_row(steps())
    return both


if __name__ == "__main__":
    from rich import print as show

    show(run())
