"""Processes that work for this one, and end when it does."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing.connection import Connection
from typing import Any

SPAWN = multiprocessing.get_context("spawn")
"""How the processes are started, and what hands queues to them."""


@contextlib.contextmanager
def worker_processes(
    number: int, initializer: Callable[..., None] | None = None, initargs: tuple[Any, ...] = ()
) -> Iterator[ProcessPoolExecutor]:
    """A pool whose processes ignore Ctrl-C, and end with this process, however it ends.

    Leaving the block waits for what was submitted; leaving it by an exception drops what has not begun, and ends the
    processes.

    Args:
        number: of processes, at most.
        initializer: called first in every process; a function of a module.
        initargs: what it is called with.
    """
    # The processes hold the reading end. When this one ends, they read the end of the file and end as well: no orphan
    # goes on computing, or writing into a folder.
    lifeline, held = SPAWN.Pipe(duplex=False)
    pool = ProcessPoolExecutor(number, SPAWN, _start, (lifeline, initializer, initargs))
    try:
        yield pool
        pool.shutdown()
    finally:
        held.close()
        pool.shutdown(wait=False, cancel_futures=True)
        lifeline.close()


def _start(lifeline: Connection, initializer: Callable[..., None] | None, initargs: tuple[Any, ...]) -> None:
    # Ctrl-C reaches the whole process group; the process that started this one decides what it means.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, args=(lifeline,), daemon=True).start()
    if initializer is not None:
        initializer(*initargs)


def _end_with_parent(lifeline: Connection) -> None:
    with contextlib.suppress(EOFError, OSError):
        lifeline.recv()
    os._exit(1)
