"""Time per accepted gradient under a strategy, against a plain Trainer on the same module and data.

Processor time of the process, on one thread: on a quiet machine that is the wall time.
"""

from __future__ import annotations

import logging
import statistics
import time
import warnings
from typing import Any

import torch
from lightning.pytorch import Callback, LightningModule, Trainer, seed_everything
from rich.table import Table

from lightning_async import ParameterServerStrategy
from lightning_async.strategies.registry import REGISTERED
from recipes.fashion_cnn import FashionCNN, FashionMNIST7000

GRADIENTS = 320
WARM_UP = 48
ROUNDS = 12


class _Clock(Callback):
    """Times the steps after the first `WARM_UP` gradients."""

    def __init__(self) -> None:
        self.gradients = 0
        self.measured = 0
        self.start = 0.0
        self.seconds = 0.0
        self.copies = 1

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, idx: int
    ) -> None:
        strategy = trainer.strategy
        server = strategy.server if isinstance(strategy, ParameterServerStrategy) else None
        step = strategy.last_step if isinstance(strategy, ParameterServerStrategy) else None
        self.gradients += len(step.jobs) if step is not None else 1
        if server is not None:
            self.copies = max(self.copies, server.versions.num_copies)
        if self.start == 0.0:
            if self.gradients >= WARM_UP:
                self.start, self.measured = time.process_time(), -self.gradients
        else:
            self.seconds = time.process_time() - self.start

    def per_gradient(self) -> float:
        return self.seconds / (self.gradients + self.measured)


def _run(name: str | None) -> _Clock:
    strategy = "auto" if name is None else REGISTERED[name]()
    steps = GRADIENTS
    if isinstance(strategy, ParameterServerStrategy):
        steps = GRADIENTS // (strategy.method.jobs_per_step(strategy.cluster.num_workers) or 1)
    clock = _Clock()
    seed_everything(0, verbose=False)
    trainer = Trainer(
        strategy=strategy,
        max_steps=steps,
        max_epochs=-1,
        limit_val_batches=0,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        callbacks=[clock],
    )
    trainer.fit(FashionCNN(lr=0.03), datamodule=FashionMNIST7000())
    return clock


def run() -> Table:
    """Interleaved runs; medians over rounds of the ratio within a round."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    for name in ("lightning.pytorch", "lightning.fabric"):
        logging.getLogger(name).setLevel(logging.ERROR)
    names = ["asgd", "delay_adaptive_asgd", "clipped_asgd", "ringmaster_asgd", "rennala_sgd", "minibatch_sgd"]
    ratios: dict[str, list[float]] = {name: [] for name in names}
    copies: dict[str, int] = {}
    _run(None)
    for _ in range(ROUNDS):
        plain = _run(None).per_gradient()
        for name in names:
            clock = _run(name)
            ratios[name].append(clock.per_gradient() / plain)
            copies[name] = clock.copies
    table = Table(title="Time per accepted gradient, over a plain Trainer (Fashion-MNIST CNN, batch 32, 16 workers)")
    for column in ("method", "ratio (median)", "quartiles", "parameter copies alive"):
        table.add_column(column, justify="left" if column == "method" else "right")
    for name in names:
        low, median, high = statistics.quantiles(ratios[name], n=4)
        table.add_row(name, f"{median:.3f}", f"{low:.3f} to {high:.3f}", str(copies[name]))
    return table


if __name__ == "__main__":
    from rich import print as show

    show(run())
