"""Time per gradient under a strategy, against a plain Trainer on the same module and data.

Every competitor is a Trainer in a thread of its own, and the threads take turns: each makes a block of steps while all
others wait, so that a block and the plain one that it is compared with lie within a second. A block counts with the
lower quartile of its steps, on one thread of PyTorch; a ratio is one within a round of blocks. The half of the rounds
counts in which all competitors together took least: both leave out what disturbs the machine. Clipping is work that a
plain Trainer can do as well, so that `clipped_asgd` is also compared with `Trainer(gradient_clip_val=...)`.
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

ROUNDS = 60
WARM_UP, TIMED = 16, 48
"""Gradients of a block before its steps are timed, and while they are."""
CLIP = 1.0
PLAIN, PLAIN_CLIPPED = "plain", "plain, clipped"
NAMES = ["asgd", "delay_adaptive_asgd", "clipped_asgd", "ringmaster_asgd", "rennala_sgd", "minibatch_sgd", "loscar"]
ROWS = [*((name, PLAIN) for name in NAMES), ("clipped_asgd", PLAIN_CLIPPED)]


class _Turns:
    """Whose turn it is among threads that must not run at the same time."""

    def __init__(self, threads: int) -> None:
        self._mine = [threading.Semaphore(0) for _ in range(threads)]
        self.error: BaseException | None = None

    def wait(self, index: int) -> None:
        self._mine[index].acquire()
        if self.error is not None:
            raise RuntimeError("another thread has failed") from self.error

    def pass_on(self, index: int) -> None:
        self._mine[(index + 1) % len(self._mine)].release()

    def fail(self, error: BaseException) -> None:
        self.error = self.error or error
        for semaphore in self._mine:
            semaphore.release()


class _Block(Callback):
    """Times the steps of a block, then lets the other Trainers make theirs."""

    def __init__(self, turns: _Turns, index: int) -> None:
        self.seconds: list[float] = []
        """Seconds per gradient of every block."""
        self.copies = 1
        self._turns, self._index = turns, index
        self._gradients = 0
        self._steps: list[float] = []
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
            self._steps.append((now - self._last) / jobs)
        self._gradients += jobs
        if self._gradients >= WARM_UP + TIMED:
            self.seconds.append(statistics.quantiles(self._steps, n=4)[0])
            self._steps, self._gradients = [], 0
            self._turns.pass_on(self._index)
            self._turns.wait(self._index)
        self._last = time.perf_counter()


def _run(name: str, block: _Block, turns: _Turns, index: int) -> None:
    """Train, in the turns of this thread."""
    try:
        turns.wait(index)
        strategy = REGISTERED[name]() if name in REGISTERED else "auto"
        jobs = 1
        if isinstance(strategy, ParameterServerStrategy):
            jobs = strategy.method.jobs_per_step(strategy.cluster.num_workers) or 1
        seed_everything(0, verbose=False)
        trainer = Trainer(
            strategy=strategy,
            max_steps=(ROUNDS + 1) * (WARM_UP + TIMED) // jobs,
            max_epochs=-1,
            limit_val_batches=0,
            gradient_clip_val=CLIP if name == PLAIN_CLIPPED else None,
            accelerator="cpu",
            logger=False,
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
            callbacks=[block],
        )
        trainer.fit(FashionCNN(lr=0.03), datamodule=FashionMNIST7000())
        turns.pass_on(index)
    except BaseException as error:
        turns.fail(error)
        raise


def run() -> Table:
    """Medians over the quiet rounds of the ratio within a round."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    for name in ("lightning.pytorch", "lightning.fabric"):
        logging.getLogger(name).setLevel(logging.ERROR)
    competitors = [PLAIN, PLAIN_CLIPPED, *NAMES]
    turns = _Turns(len(competitors))
    blocks = {name: _Block(turns, index) for index, name in enumerate(competitors)}
    threads = [
        threading.Thread(target=_run, args=(name, block, turns, index), daemon=True)
        for index, (name, block) in enumerate(blocks.items())
    ]
    for thread in threads:
        thread.start()
    turns.pass_on(-1)
    for thread in threads:
        thread.join()
    if turns.error is not None:
        raise turns.error
    table = Table(title="Time per gradient, over a plain Trainer (Fashion-MNIST CNN, batch 32, 16 workers)")
    for column in ("method", "ratio", "quartiles", "copies alive"):
        table.add_column(column, justify="left" if column == "method" else "right")
    rounds = [dict(zip(blocks, row, strict=True)) for row in zip(*(b.seconds for b in blocks.values()), strict=True)]
    rounds.pop(0)  # every run starts there
    quiet = sorted(rounds, key=lambda seconds: sum(seconds.values()))[: len(rounds) // 2]
    for name, plain in ROWS:
        ratios = [seconds[name] / seconds[plain] for seconds in quiet]
        low, median, high = statistics.quantiles(ratios, n=4)
        table.add_row(
            name if plain == PLAIN else f"{name}, both clip",
            f"{median:.3f}",
            f"{low:.3f} to {high:.3f}",
            "one a worker" if name == "loscar" else str(blocks[name].copies),
        )
    return table


if __name__ == "__main__":
    from rich import print as show

    show(run())
