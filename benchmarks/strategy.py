"""Time per gradient under a strategy, against a plain Trainer on the same module and data.

The time of a run is the lower decile over its steps, what a step takes when nothing else disturbs the machine, on one
thread. Runs alternate, in an order that rotates from round to round; a ratio is one within a round. Clipping is work
that a plain Trainer can do as well, so that `clipped_asgd` is also compared with `Trainer(gradient_clip_val=...)`.
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
ROUNDS = 9
CLIP = 1.0
PLAIN, PLAIN_CLIPPED = "plain", "plain, clipped"
NAMES = ["asgd", "delay_adaptive_asgd", "clipped_asgd", "ringmaster_asgd", "rennala_sgd", "minibatch_sgd", "loscar"]
ROWS = [*((name, PLAIN) for name in NAMES), ("clipped_asgd", PLAIN_CLIPPED)]


class _Clock(Callback):
    """Seconds per gradient of every step after the first `WARM_UP` gradients, and copies of the parameters alive."""

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self.copies = 1
        self._gradients = 0
        self._last = 0.0

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, idx: int
    ) -> None:
        now, jobs = time.perf_counter(), 1
        if isinstance(trainer.strategy, ParameterServerStrategy):
            server, step = trainer.strategy.server, trainer.strategy.last_step
            assert server is not None
            assert step is not None
            jobs = len(step.jobs)
            self.copies = max(self.copies, server.versions.num_copies)
        if self._gradients >= WARM_UP:
            self.seconds.append((now - self._last) / jobs)
        self._gradients += jobs
        self._last = time.perf_counter()


def _run(name: str) -> tuple[float, int]:
    """Seconds per gradient, and copies of the parameters."""
    strategy = REGISTERED[name]() if name in REGISTERED else "auto"
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
        gradient_clip_val=CLIP if name == PLAIN_CLIPPED else None,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        callbacks=[clock],
    )
    trainer.fit(FashionCNN(lr=0.03), datamodule=FashionMNIST7000())
    return statistics.quantiles(clock.seconds, n=10)[0], clock.copies


def run() -> Table:
    """Medians over rounds of the ratio within a round."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    for name in ("lightning.pytorch", "lightning.fabric"):
        logging.getLogger(name).setLevel(logging.ERROR)
    competitors = [PLAIN, PLAIN_CLIPPED, *NAMES]
    seconds: dict[str, list[float]] = {name: [] for name in competitors}
    copies: dict[str, int] = {}
    _run(PLAIN)
    for turn in range(ROUNDS):
        first = turn % len(competitors)
        for name in competitors[first:] + competitors[:first]:
            taken, copies[name] = _run(name)
            seconds[name].append(taken)
    table = Table(title="Time per gradient, over a plain Trainer (Fashion-MNIST CNN, batch 32, 16 workers)")
    for column in ("method", "ratio", "quartiles", "copies alive"):
        table.add_column(column, justify="left" if column == "method" else "right")
    for name, plain in ROWS:
        ratios = [ours / theirs for ours, theirs in zip(seconds[name], seconds[plain], strict=True)]
        low, median, high = statistics.quantiles(ratios, n=4)
        table.add_row(
            name if plain == PLAIN else f"{name}, both clip",
            f"{median:.3f}",
            f"{low:.3f} to {high:.3f}",
            "one a worker" if name == "loscar" else str(copies[name]),
        )
    return table


if __name__ == "__main__":
    from rich import print as show

    show(run())
