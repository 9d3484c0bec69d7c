"""Exchanging replicas, and local steps: against a dense average, and against a plain Trainer."""

from __future__ import annotations

import logging
import os
import statistics
import time
import warnings
from collections.abc import Callable
from typing import Any

import torch
from lightning.pytorch import Callback, LightningModule, Trainer, seed_everything
from rich.table import Table
from torch import Tensor, nn
from torchvision.models import resnet18

from benchmarks.timing import compare
from lightning_async import SimulatedCluster
from lightning_async.methods import LOSCAR, LocalSGD, ReplicaMethod
from lightning_async.methods.flat import FlatReplicas
from lightning_async.methods.message import Message
from lightning_async.simulation import Link, UniformTimes
from lightning_async.strategies import LocalSGDStrategy
from recipes.fashion_cnn import FashionCNN, FashionMNIST7000

REPLICAS = 16
SLICES = 15
STEPS, WARM_UP, ROUNDS = 240, 48, 9


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


class _Clock(Callback):
    """CPU seconds per step after the first `WARM_UP`: other work on the machine adds less to them than to wall time."""

    def __init__(self) -> None:
        self.start = 0.0
        self.per_step = 0.0

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        if trainer.global_step == WARM_UP:
            self.start = time.process_time()
        elif trainer.global_step > WARM_UP:
            self.per_step = (time.process_time() - self.start) / (trainer.global_step - WARM_UP)


class _Wide(FashionCNN):
    """Large enough that a step takes what a step of a small network takes."""

    def __init__(self) -> None:
        super().__init__(lr=0.03)
        self.network = nn.Sequential(
            nn.Conv2d(1, 32, 5, padding=2), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(32, 64, 3, padding=1), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(2),
            nn.Flatten(), nn.Linear(64 * 49, 10),
        )  # fmt: skip


def _seconds_per_step(module: Callable[[], LightningModule], method: ReplicaMethod | None) -> float:
    clock = _Clock()
    cluster = SimulatedCluster(UniformTimes(REPLICAS), Link(latency=4.0))
    arguments = {} if method is None else {"strategy": LocalSGDStrategy(method, cluster)}
    seed_everything(0, verbose=False)
    trainer = Trainer(
        max_steps=STEPS,
        max_epochs=-1,
        limit_val_batches=0,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        callbacks=[clock],
        **arguments,
    )
    trainer.fit(module(), datamodule=FashionMNIST7000())
    return clock.per_step


def steps() -> Table:
    """CPU time per local step, merges included, over a step of a plain Trainer; medians of ratios within a round."""
    warnings.simplefilter("ignore")
    for name in ("lightning.pytorch", "lightning.fabric"):
        logging.getLogger(name).setLevel(logging.ERROR)
    methods: dict[str, ReplicaMethod] = {
        "never communicating": LOSCAR(0.0, compute_window=4.0),
        "LOSCAR, p = 0.01": LOSCAR(0.01, compute_window=4.0),
        "LOSCAR, p = 1": LOSCAR(1.0, compute_window=4.0),
        "local SGD": LocalSGD(4.0),
    }
    table = Table(title=f"CPU time of a local step, over a plain Trainer's (Fashion-MNIST, {REPLICAS} replicas)")
    for column in ("network", "method", "plain step, ms", "ratio (median)", "quartiles"):
        table.add_column(column, justify="left" if column in ("network", "method") else "right")
    for network, module in (("9,226 parameters", lambda: FashionCNN(lr=0.03)), ("51,000 parameters", _Wide)):
        ratios: dict[str, list[float]] = {name: [] for name in methods}
        plains = []
        for _ in range(ROUNDS):
            plain = _seconds_per_step(module, None)
            plains.append(plain)
            for name, method in methods.items():
                ratios[name].append(_seconds_per_step(module, method) / plain)
        for name, values in ratios.items():
            low, median, high = statistics.quantiles(values, n=4)
            milliseconds = f"{1e3 * statistics.median(plains):.2f}"
            table.add_row(network, name, milliseconds, f"{median:.3f}", f"{low:.3f} to {high:.3f}")
    return table


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
