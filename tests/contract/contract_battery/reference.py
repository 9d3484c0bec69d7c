"""The methods once more, each as a loop of a dozen lines with prescribed times, written without the package.

Only the rule of the seeds, `job_seed`, is shared.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import cycle

import torch
from torch import Tensor
from torch.optim import Optimizer

from contract_battery.classifier import Classifier
from lightning_async import job_seed

Iterate = list[Tensor]


class Server:
    """A module, its optimizer, and the mini-batches in the order of the loader."""

    def __init__(
        self, module: Classifier, batches: Sequence[list[Tensor]], seed: int, optimizer: Optimizer | None = None
    ) -> None:
        self.module = module.train()
        self.optimizer = module.configure_optimizers() if optimizer is None else optimizer
        self.parameters = list(module.parameters())
        self.batches = cycle(batches)
        self.seed = seed
        self.times: list[float] = []

    def iterate(self) -> Iterate:
        return [p.detach().clone() for p in self.parameters]

    def put(self, iterate: Iterate) -> None:
        with torch.no_grad():
            for p, value in zip(self.parameters, iterate, strict=True):
                p.copy_(value)

    def gradient(self, at: Iterate, worker: int, number: int) -> Iterate:
        """Gradient at an iterate on the next mini-batch."""
        newest = self.iterate()
        self.put(at)
        torch.manual_seed(job_seed(self.seed, worker, number))
        self.optimizer.zero_grad()
        self.module.loss(next(self.batches)).backward()
        self.put(newest)
        return [p.grad.clone() for p in self.parameters]

    def step(self, gradient: Iterate, time: float, scale: float = 1.0, momentum: float | None = None) -> None:
        for p, g in zip(self.parameters, gradient, strict=True):
            p.grad = g
        rates = [group["lr"] for group in self.optimizer.param_groups]
        for group, rate in zip(self.optimizer.param_groups, rates, strict=True):
            group["lr"] = rate * scale
            if momentum is not None:
                group["momentum"] = momentum
        self.optimizer.step()
        for group, rate in zip(self.optimizer.param_groups, rates, strict=True):
            group["lr"] = rate
        self.times.append(time)


@dataclass
class Out:
    """A job that is out."""

    due: float
    worker: int
    number: int
    version: int
    at: Iterate


def _first(out: list[Out]) -> Out:
    return min(out, key=lambda job: (job.due, job.worker))


def _mean(gradients: list[Iterate]) -> Iterate:
    return [sum(parts[1:], parts[0]) / len(parts) for parts in zip(*gradients, strict=True)]


def finisher_restarts(
    server: Server,
    times: Sequence[float],
    steps: int,
    used: Callable[[int, int], bool] = lambda delay, k: True,
    scale: Callable[[int], float] = lambda delay: 1.0,
    clip: float = float("inf"),
) -> None:
    """Every arrival is used, if its delay allows, and the finisher restarts."""
    k = 0
    out = [Out(time, worker, 0, 0, server.iterate()) for worker, time in enumerate(times)]
    while k < steps:
        job = _first(out)
        if used(k - job.version, k):
            gradient = server.gradient(job.at, job.worker, job.number)
            norm = torch.cat([g.flatten() for g in gradient]).norm().item()
            server.step([g * (clip / norm) if norm > clip else g for g in gradient], job.due, scale(k - job.version))
            k += 1
        out[job.worker] = Out(job.due + times[job.worker], job.worker, job.number + 1, k, server.iterate())


def uniform(server: Server, times: Sequence[float], steps: int, draws: Sequence[int], clip: float = 1e9) -> None:
    """The next job goes to a drawn worker and waits there for its turn, at the iterate of when it was given out."""
    queues = [[Out(time, worker, 0, 0, server.iterate())] for worker, time in enumerate(times)]
    numbers = [1] * len(times)
    for k in range(steps):
        job = _first([queue[0] for queue in queues if queue])
        queues[job.worker].pop(0)
        if queues[job.worker]:
            queues[job.worker][0].due = job.due + times[job.worker]
        gradient = server.gradient(job.at, job.worker, job.number)
        norm = torch.cat([g.flatten() for g in gradient]).norm().item()
        server.step([g * (clip / norm) if norm > clip else g for g in gradient], job.due)
        worker = draws[k]
        queues[worker].append(Out(job.due + times[worker], worker, numbers[worker], k + 1, server.iterate()))
        numbers[worker] += 1


def ringmaster_with_stops(
    server: Server,
    times: Sequence[float],
    steps: int,
    threshold: Callable[[int], int],
    scale: Callable[[int], float] = lambda k: 1.0,
    momentum: Callable[[int], float | None] = lambda k: None,
) -> None:
    """After each update, whoever has reached the threshold is stopped and restarted."""
    k = 0
    out = [Out(time, worker, 0, 0, server.iterate()) for worker, time in enumerate(times)]
    while k < steps:
        job = _first(out)
        if k - job.version < threshold(k):
            server.step(server.gradient(job.at, job.worker, job.number), job.due, scale(k), momentum(k))
            k += 1
        late = [other for other in out if other is not job and k - other.version >= threshold(k)]
        for restarted in [job, *late]:
            due = job.due + times[restarted.worker]
            out[restarted.worker] = Out(due, restarted.worker, restarted.number + 1, k, server.iterate())


def rennala(server: Server, times: Sequence[float], steps: int, batch: int) -> None:
    """All work at x_k until `batch` gradients have come; then all are stopped and restart."""
    now, numbers = 0.0, [0] * len(times)
    for _ in range(steps):
        due, gradients = [now + time for time in times], []
        for _ in range(batch):
            worker = due.index(min(due))
            now = due[worker]
            gradients.append(server.gradient(server.iterate(), worker, numbers[worker]))
            if len(gradients) < batch:  # the last one restarts with all others, at the next iterate
                due[worker], numbers[worker] = now + times[worker], numbers[worker] + 1
        server.step(_mean(gradients), now)
        numbers = [number + 1 for number in numbers]


def rennala_without_stops(server: Server, times: Sequence[float], steps: int, batch: int) -> None:
    """As Rennala, but stale work is finished, and discarded when it arrives."""
    k, gradients = 0, []
    out = [Out(time, worker, 0, 0, server.iterate()) for worker, time in enumerate(times)]
    while k < steps:
        job = _first(out)
        if job.version == k:
            gradients.append(server.gradient(job.at, job.worker, job.number))
        if len(gradients) == batch:
            server.step(_mean(gradients), job.due)
            k, gradients = k + 1, []
        out[job.worker] = Out(job.due + times[job.worker], job.worker, job.number + 1, k, server.iterate())


def minibatch(server: Server, times: Sequence[float], steps: int) -> None:
    """One gradient of every worker at x_k, in the order in which they finish."""
    order = sorted(range(len(times)), key=lambda worker: (times[worker], worker))
    for k in range(steps):
        gradients = [server.gradient(server.iterate(), worker, k) for worker in order]
        server.step(_mean(gradients), (server.times[-1] if server.times else 0.0) + max(times))


def malenia(server: Server, times: Sequence[float], steps: int, target: float) -> None:
    """As Rennala, until the harmonic mean of the numbers of gradients is large enough; every worker counts the same."""
    now, numbers, n = 0.0, [0] * len(times), len(times)
    for _ in range(steps):
        due, sent = [now + time for time in times], [[] for _ in times]
        while not all(sent) or n / sum(1 / len(gradients) for gradients in sent) < target / n:
            worker = due.index(min(due))
            now = due[worker]
            sent[worker].append(server.gradient(server.iterate(), worker, numbers[worker]))
            due[worker], numbers[worker] = now + times[worker], numbers[worker] + 1
        server.step(_mean([_mean(gradients) for gradients in sent]), now)
        numbers = [number + (other != worker) for other, number in enumerate(numbers)]


def ringleader(server: Server, times: Sequence[float], steps: int) -> None:
    """Once everybody is in the table, one update for each; what comes after one's update is for the next table."""
    k, table = 0, [[] for _ in times]
    out = [Out(time, worker, 0, 0, server.iterate()) for worker, time in enumerate(times)]
    while k < steps:
        updated, later = set(), [[] for _ in times]
        while len(updated) < len(times) and k < steps:
            job = _first(out)
            mine = later if job.worker in updated else table
            mine[job.worker].append(server.gradient(job.at, job.worker, job.number))
            version, at = job.version, job.at
            if job.worker not in updated and all(table):
                server.step(_mean([_mean(gradients) for gradients in table]), job.due)
                k += 1
                updated.add(job.worker)
                version, at = k, server.iterate()
            out[job.worker] = Out(job.due + times[job.worker], job.worker, job.number + 1, version, at)
        table = later


def iasgd(server: Server, times: Sequence[float], steps: int) -> None:
    """The mean of everybody's last gradient, from when there is one of everybody."""
    k, table, unused = 0, {}, {}
    out = [Out(time, worker, 0, 0, server.iterate()) for worker, time in enumerate(times)]
    while k < steps:
        job = _first(out)
        unused.pop(job.worker, None)
        unused[job.worker] = job
        if len(table | unused) == len(times):
            table |= {worker: server.gradient(job.at, worker, job.number) for worker, job in unused.items()}
            server.step(_mean(list(table.values())), job.due)
            k, unused = k + 1, {}
        out[job.worker] = Out(job.due + times[job.worker], job.worker, job.number + 1, k, server.iterate())


def fedbuff(server: Server, times: Sequence[float], steps: int, buffer: int, local_steps: int, local_lr: float) -> None:
    """A job is some steps of SGD, of which the difference is sent; `buffer` differences make an update."""
    k, differences = 0, []
    out = [Out(local_steps * time, worker, 0, 0, server.iterate()) for worker, time in enumerate(times)]
    while k < steps:
        job = _first(out)
        local = job.at
        for number in range(job.number * local_steps, (job.number + 1) * local_steps):
            gradient = server.gradient(local, job.worker, number)
            local = [x - local_lr * g for x, g in zip(local, gradient, strict=True)]
        weight = (1 + k - job.version) ** -0.5
        differences.append([weight * (x - y) for x, y in zip(job.at, local, strict=True)])
        if len(differences) == buffer:
            server.step(_mean(differences), job.due)
            k, differences = k + 1, []
        due = job.due + local_steps * times[job.worker]
        out[job.worker] = Out(due, job.worker, job.number + 1, k, server.iterate())


def coded(
    server: Server, times: Sequence[float], steps: int, deadline: float, holders: Sequence[int], used: int | None = None
) -> None:
    """Gradients of all partitions, of which those that are used are averaged at the deadline."""
    for k in range(steps):
        gradients = [
            server.gradient(server.iterate(), holder, k * len(holders) + partition)
            for partition, holder in enumerate(holders)
        ]
        server.step(_mean(gradients[:used]), (k + 1) * deadline)
