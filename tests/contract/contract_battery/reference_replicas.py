"""Rounds of local steps once more, by hand: every worker has a module and an optimizer of its own."""

from collections.abc import Callable, Sequence
from copy import deepcopy

import torch
from torch import Tensor, nn

from contract_battery.reference import Server
from lightning_async import job_seed

Coordinates = Callable[[int, int], Sequence[int] | None]


def local_rounds(
    server: Server,
    times: Sequence[float],
    steps: int,
    window: float,
    latency: float,
    coordinates: Coordinates,
    overlap: bool = False,
    weight: float | None = None,
    outer: tuple[float, float] | None = None,
) -> None:
    """Make local steps, send, merge. Afterwards the server's module is the average.

    Args:
        server: has the initial module.
        times: time of a local step, per worker.
        steps: how many local steps are made, over all workers.
        window: time for local steps before a message.
        latency: time that a message takes.
        coordinates: (round, d) -> what is sent; None for everything.
        overlap: whether steps are made while the message travels.
        weight: of a replica's own value in the merge; None for the corrected merge.
        outer: step size and Nesterov momentum of the outer optimizer, if there is one.
    """
    workers = range(len(times))
    modules, numbers = [deepcopy(server.module) for _ in workers], [0 for _ in workers]
    optimizers = [module.configure_optimizers() for module in modules]
    center, momentum = flat(modules[0]), torch.zeros_like(flat(modules[0]))
    start, round = 0.0, 0
    while len(server.times) < steps:
        snapshot = start + max(window, *times)
        end = snapshot + latency
        before = [max(1, int(window / time)) for time in times]
        during = [int(latency / time) if overlap else 0 for time in times]
        plan = [(start + i * times[w], w) for w in workers for i in range(1, before[w] + 1)]
        plan += [(snapshot + i * times[w], w) for w in workers for i in range(1, during[w] + 1)]
        plan.sort()
        plan[-1] = (end, plan[-1][1])
        made, sent = [0 for _ in workers], [flat(module) for module in modules]
        for time, w in plan[: steps - len(server.times)]:
            torch.manual_seed(job_seed(server.seed, w, numbers[w]))
            optimizers[w].zero_grad()
            modules[w].loss(next(server.batches)).backward()
            optimizers[w].step()
            server.times.append(time)
            numbers[w], made[w] = numbers[w] + 1, made[w] + 1
            if made[w] == before[w]:
                sent[w] = flat(modules[w])
        if made == [b + d for b, d in zip(before, during, strict=True)]:
            index = coordinates(round, len(center))
            index = slice(None) if index is None else torch.as_tensor(index)
            target = mean = sum(sent) / len(times)
            if outer is not None:
                gradient = center - mean
                momentum = outer[1] * momentum + gradient
                target = center = center - outer[0] * (gradient + outer[1] * momentum)
            buffers = average_buffers(modules)
            for module, y in zip(modules, sent, strict=True):
                z = flat(module)
                merged = z + (target - y) if weight is None else (1 - weight) * target + weight * z
                z[index] = merged[index]
                put(module, z, buffers)
        start, round = end, round + 1
    put(server.module, sum(map(flat, modules)) / len(times), average_buffers(modules))


def flat(module: nn.Module) -> Tensor:
    """All parameters, one after the other."""
    return nn.utils.parameters_to_vector(module.parameters()).detach().clone()


def put(module: nn.Module, parameters: Tensor, buffers: list[Tensor]) -> None:
    """Give a module other values."""
    nn.utils.vector_to_parameters(parameters, module.parameters())
    for buffer, value in zip(module.buffers(), buffers, strict=True):
        buffer.copy_(value)


def average_buffers(modules: list[nn.Module]) -> list[Tensor]:
    """Means of numbers, largest of counters."""
    stacked = [torch.stack(values) for values in zip(*(module.buffers() for module in modules), strict=True)]
    return [values.mean(0) if values.is_floating_point() else values.amax(0) for values in stacked]
