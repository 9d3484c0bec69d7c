"""Updates per second of `simulate`, against a loop written by hand with the same optimizer, and of Ringmaster ASGD.

The objective is the quadratic of the Ringmaster LMO paper (arXiv 2605.18174): f(x) = x'Ax/2 - b'x with
A = tridiag(-1, 2, -1) / 4, d = 1,729, and gradients with Gaussian noise of standard deviation 0.01.

The loop by hand is vanilla ASGD on a heap, with one copy of the iterate for each worker, and nothing else: no other
method, no check that gradients are finite, no memory of any delay. Slices of both are run in turns.
"""

from collections.abc import Callable, Iterator
from functools import partial
from heapq import heapify, heapreplace
from itertools import islice

import torch
from rich.table import Table
from torch import Tensor

from benchmarks.timing import compare, seconds
from lightning_async import simulate
from lightning_async.methods import ASGD, RingmasterASGD
from lightning_async.simulation import Job, SimulatedCluster, SqrtTimes

DIMENSION = 1_729
NOISE = 0.01
STEP = 0.5  # divided by the number of workers, which keeps the stale gradients of vanilla ASGD stable
WORKERS = (8, 64, 1_000, 10_000)
UPDATES_PER_SLICE = 200
SLICES = 60
RINGMASTER_WORKERS = (8, 64, 512, 4_096)
THRESHOLD = 6


def start() -> Tensor:
    x = torch.zeros(DIMENSION)
    x[0] = DIMENSION**0.5
    return x


def noisy_gradient(x: Tensor, generator: torch.Generator) -> Tensor:
    gradient = torch.randn(DIMENSION, generator=generator).mul_(NOISE)
    gradient.add_(x, alpha=0.5)
    gradient[1:].sub_(x[:-1], alpha=0.25)
    gradient[:-1].sub_(x[1:], alpha=0.25)
    gradient[0] += 0.25
    return gradient


def by_hand(
    times: tuple[float, ...], x: Tensor, optimizer: torch.optim.Optimizer, gradient: Callable[[Tensor], Tensor]
) -> Iterator[float]:
    heap = [(time, worker) for worker, time in enumerate(times)]
    heapify(heap)
    copies = [x.clone() for _ in times]
    while True:
        time, worker = heap[0]
        x.grad = gradient(copies[worker])
        optimizer.step()
        yield time
        copies[worker].copy_(x)
        heapreplace(heap, (time + times[worker], worker))


def advance(steps: Iterator[object], updates: int) -> None:
    for _ in islice(steps, updates):
        pass


def vanilla() -> Table:
    table = Table(title="simulate(ASGD()), relative to a loop by hand (at least 0.7)")
    for column in ("workers", "relative speed", "quartiles", "updates/s", "by hand"):
        table.add_column(column, justify="right")
    for n in WORKERS:
        times = SqrtTimes(n)
        ours, theirs = start(), start()
        noise = [torch.Generator().manual_seed(0) for _ in range(2)]
        our_steps = simulate(
            ASGD(),
            SimulatedCluster(times),
            [ours],
            torch.optim.SGD([ours], lr=STEP / n),
            lambda job, x=ours, generator=noise[0]: [noisy_gradient(x, generator)],
        )
        their_steps: Iterator[object] = by_hand(
            times.constant,
            theirs,
            torch.optim.SGD([theirs], lr=STEP / n),
            partial(noisy_gradient, generator=noise[1]),
        )
        # In the beginning every update makes a copy in memory that is new: not what a run spends its time on.
        for steps in (our_steps, their_steps):
            advance(steps, 3 * n)
        result = compare(
            partial(advance, our_steps, UPDATES_PER_SLICE), partial(advance, their_steps, UPDATES_PER_SLICE), SLICES
        )
        if not torch.equal(ours, theirs):
            raise RuntimeError("the two loops must make the same iterates")
        table.add_row(
            f"{n:,}",
            f"{result.ratio:.2f}",
            f"{result.low:.2f} to {result.high:.2f}",
            f"{UPDATES_PER_SLICE / result.ours:,.0f}",
            f"{UPDATES_PER_SLICE / result.theirs:,.0f}",
        )
    return table


def ringmaster() -> Table:
    table = Table(title=f"Ringmaster ASGD with stops, R = {THRESHOLD}, worker i takes sqrt(i)")
    for column in ("workers", "updates/s", "quartiles", "restarts per update"):
        table.add_column(column, justify="right")
    for n in RINGMASTER_WORKERS:
        x = start()
        generator = torch.Generator().manual_seed(0)

        def gradient(job: Job, x: Tensor = x, generator: torch.Generator = generator) -> list[Tensor]:
            return [noisy_gradient(x, generator)]

        simulation = simulate(
            RingmasterASGD(THRESHOLD),
            SimulatedCluster(SqrtTimes(n)),
            [x],
            torch.optim.SGD([x], STEP / THRESHOLD),
            gradient,
        )
        low, middle, high = seconds(partial(advance, simulation, UPDATES_PER_SLICE), slices=15)
        server = simulation.server
        table.add_row(
            f"{n:,}",
            f"{UPDATES_PER_SLICE / middle:,.0f}",
            f"{UPDATES_PER_SLICE / high:,.0f} to {UPDATES_PER_SLICE / low:,.0f}",
            f"{server.discarded / server.completed:.1f}",
        )
    return table


def run() -> None:
    from rich.console import Console

    console = Console()
    console.print(vanilla())
    console.print(ringmaster())
