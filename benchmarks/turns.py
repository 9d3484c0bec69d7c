"""Training runs that take turns, so that their times per gradient can be compared.

Every competitor is a Trainer in a thread of its own, and the threads take turns: each makes a block of steps while all
others wait, so that a block and the one that it is compared with lie within a second. A block counts with the lower
quartile of its steps, on one thread of PyTorch; a ratio is one within a round of blocks. The half of the rounds counts
in which all competitors together took least: both leave out what disturbs the machine.
"""

from __future__ import annotations

import logging
import statistics
import threading
import time
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import torch
from lightning.pytorch import Callback, LightningModule, Trainer, seed_everything
from lightning.pytorch.strategies import Strategy

from lightning_async import ParameterServerStrategy
from recipes.fashion_cnn import FashionMNIST7000

WARM_UP, TIMED = 16, 48
"""Gradients of a block before its steps are timed, and while they are."""


class Competitor:
    """A Trainer, and the times of its blocks.

    Args:
        strategy: makes its strategy; None for a plain Trainer.
        clip: `gradient_clip_val` of the Trainer.
    """

    def __init__(self, strategy: Callable[[], Strategy] | None = None, clip: float | None = None) -> None:
        self.strategy = strategy
        self.clip = clip
        self.block: _Block | None = None

    @property
    def copies(self) -> int:
        """Most copies of the parameters that a parameter server kept at a time; 1 for others."""
        return self.block.copies if self.block else 1

    def run(self, module: LightningModule, rounds: int, turns: _Turns, index: int) -> None:
        """Train, in the turns of this thread."""
        turns.wait(index)
        strategy = self.strategy() if self.strategy else "auto"
        jobs = 1
        if isinstance(strategy, ParameterServerStrategy):
            jobs = strategy.method.jobs_per_step(strategy.cluster.num_workers) or 1
        self.block = _Block(turns, index)
        seed_everything(0, verbose=False)
        trainer = Trainer(
            strategy=strategy,
            max_steps=(rounds + 1) * (WARM_UP + TIMED) // jobs,
            max_epochs=-1,
            limit_val_batches=0,
            gradient_clip_val=self.clip,
            accelerator="cpu",
            logger=False,
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
            callbacks=[self.block],
        )
        trainer.fit(module, datamodule=FashionMNIST7000())
        turns.pass_on(index)


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


def in_turns(
    competitors: Mapping[str, Competitor], module: Callable[[], LightningModule], rounds: int
) -> list[dict[str, float]]:
    """Train a module on Fashion-MNIST under every competitor.

    Returns:
        Seconds per gradient of every competitor, for each of the quieter half of the rounds.
    """
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    for name in ("lightning.pytorch", "lightning.fabric"):
        logging.getLogger(name).setLevel(logging.ERROR)
    turns = _Turns(len(competitors))

    def run(competitor: Competitor, index: int) -> None:
        try:
            competitor.run(module(), rounds, turns, index)
        except BaseException as error:
            turns.fail(error)
            raise

    threads = [
        threading.Thread(target=run, args=(competitor, index), daemon=True)
        for index, competitor in enumerate(competitors.values())
    ]
    for thread in threads:
        thread.start()
    turns.pass_on(-1)
    for thread in threads:
        thread.join()
    if turns.error is not None:
        raise turns.error
    blocks = [competitor.block.seconds for competitor in competitors.values() if competitor.block]
    timed = [dict(zip(competitors, row, strict=True)) for row in zip(*blocks, strict=True)]
    timed.pop(0)  # every run starts there
    return sorted(timed, key=lambda seconds: sum(seconds.values()))[: len(timed) // 2]


def ratio(timed: list[dict[str, float]], ours: str, theirs: str) -> tuple[str, str]:
    """Time of one competitor over that of another: the median over rounds, and the quartiles."""
    low, median, high = statistics.quantiles([seconds[ours] / seconds[theirs] for seconds in timed], n=4)
    return f"{median:.3f}", f"{low:.3f} to {high:.3f}"
