"""Time per gradient under a strategy, against a plain Trainer on the same module and data.

The two Trainers run in two threads that take turns, a few steps each, so that whatever else the machine does falls on
both alike. The first step of a turn, which finds the caches of the other one, is not counted; a ratio is that of the
medians of two neighbouring turns. Clipping is work that a plain Trainer can do as well, so that `clipped_asgd` is also
compared with `Trainer(gradient_clip_val=...)`.
"""

from __future__ import annotations

import logging
import statistics
import threading
import time
import warnings
from typing import Any

import torch
from lightning.pytorch import Callback, LightningModule, Trainer, seed_everything
from rich.table import Table

from lightning_async import ParameterServerStrategy
from lightning_async.strategies.registry import REGISTERED
from recipes.fashion_cnn import FashionCNN, FashionMNIST7000

TURN = 8
"""Gradients of a turn; one step, if that takes more."""

TURNS = 100
WARM_UP = 6
CLIP = 1.0
ROWS = [
    ("asgd", None),
    ("delay_adaptive_asgd", None),
    ("clipped_asgd", None),
    ("clipped_asgd", CLIP),
    ("ringmaster_asgd", None),
    ("rennala_sgd", None),
    ("minibatch_sgd", None),
    ("loscar", None),
]
"""Strategies, and the `gradient_clip_val` of the plain Trainer."""


class _Turns(Callback):
    """Seconds per gradient, turn by turn."""

    def __init__(self, mine: threading.Semaphore, other: threading.Semaphore) -> None:
        self.mine, self.other = mine, other
        self.medians: list[float] = []
        self.copies = 1
        self._gradients = 0
        self._seconds: list[float] = []
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
        if self._last or jobs > 1:  # of many gradients, the first ones do not matter
            self._seconds.append((now - self._last) / jobs)
        self._gradients += jobs
        self._last = time.perf_counter()
        if self._gradients >= TURN:
            self.medians.append(statistics.median(self._seconds))
            self._gradients, self._seconds = 0, []
            self.other.release()
            self.mine.acquire()
            self._last = time.perf_counter() if jobs > 1 else 0.0


def _fit(strategy: Any, turns: _Turns, steps: int, clip: float | None) -> None:
    turns.mine.acquire()
    try:
        torch.set_num_threads(1)
        seed_everything(0, verbose=False)
        trainer = Trainer(
            strategy=strategy,
            max_steps=steps,
            max_epochs=-1,
            limit_val_batches=0,
            gradient_clip_val=clip,
            accelerator="cpu",
            logger=False,
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
            callbacks=[turns],
        )
        trainer.fit(FashionCNN(lr=0.03), datamodule=FashionMNIST7000())
    finally:
        turns.other.release(2)


def _ratios(name: str, clip: float | None) -> tuple[list[float], int]:
    """The ratio of every pair of turns, and the copies of the parameters that were alive."""
    strategy = REGISTERED[name]()
    jobs = 1
    if isinstance(strategy, ParameterServerStrategy):
        jobs = strategy.method.jobs_per_step(strategy.cluster.num_workers) or 1
    plain_turn, our_turn = threading.Semaphore(1), threading.Semaphore(0)
    plain, ours = _Turns(plain_turn, our_turn), _Turns(our_turn, plain_turn)
    threads = [
        threading.Thread(target=_fit, args=("auto", plain, TURN * TURNS, clip)),
        threading.Thread(target=_fit, args=(strategy, ours, max(1, TURN // jobs) * TURNS, None)),
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    pairs = list(zip(ours.medians, plain.medians, strict=True))[WARM_UP:]
    return [our / their for our, their in pairs], ours.copies


def run() -> Table:
    """Medians and quartiles of the ratios."""
    warnings.simplefilter("ignore")
    for name in ("lightning.pytorch", "lightning.fabric"):
        logging.getLogger(name).setLevel(logging.ERROR)
    table = Table(title="Time per gradient, over a plain Trainer (Fashion-MNIST CNN, batch 32, 16 workers)")
    for column in ("method", "ratio", "quartiles", "copies alive"):
        table.add_column(column, justify="left" if column == "method" else "right")
    for name, clip in ROWS:
        ratios, copies = _ratios(name, clip)
        low, median, high = statistics.quantiles(ratios, n=4)
        table.add_row(
            name if clip is None else f"{name}, both clip",
            f"{median:.3f}",
            f"{low:.3f} to {high:.3f}",
            "one a worker" if name == "loscar" else str(copies),
        )
    return table


if __name__ == "__main__":
    from rich import print as show

    show(run())
