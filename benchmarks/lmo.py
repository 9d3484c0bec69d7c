"""`LMO` against `torch.optim.Muon`: time and extra memory of a step on the 36 hidden matrices of the NanoChat decoder.

Both do five quintic iterations in bfloat16. Steps of the two alternate, so that whatever else the machine does falls
on both alike. Run with ``python -m benchmarks.lmo``; each number of threads gets a process of its own.
"""

import argparse
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable

import torch
from torch import Tensor, nn

from lightning_async.optim import LMO, param_groups
from recipes.nanochat.model import Decoder


def hidden_matrices() -> list[nn.Parameter]:
    torch.manual_seed(0)
    groups = param_groups(Decoder())
    return [p for group in groups if group["norm"] == "spectral" for p in group["params"]]


def with_gradients(shapes: list[torch.Size]) -> list[nn.Parameter]:
    generator = torch.Generator().manual_seed(0)
    parameters = [nn.Parameter(torch.randn(shape, generator=generator)) for shape in shapes]
    for parameter in parameters:
        parameter.grad = torch.randn(parameter.shape, generator=generator)
    return parameters


def optimizers(shapes: list[torch.Size], ns_dtype: str, coefficients: str) -> dict[str, torch.optim.Optimizer]:
    ours: list[Tensor] = list(with_gradients(shapes))
    theirs: list[Tensor] = list(with_gradients(shapes))
    return {
        "LMO": LMO(ours, lr=0.02, nesterov=True, weight_decay=0.1, coefficients=coefficients, ns_dtype=ns_dtype),
        "torch.optim.Muon": torch.optim.Muon(theirs, lr=0.02, weight_decay=0.1),
    }


def seconds(step: Callable[[], object]) -> float:
    start = time.perf_counter()
    step()
    return time.perf_counter() - start


def measure_time(threads: int, repeats: int) -> None:
    torch.set_num_threads(threads)
    shapes = [p.shape for p in hidden_matrices()]
    rivals = optimizers(shapes, "bfloat16", "quintic")
    times: dict[str, list[float]] = {name: [] for name in rivals}
    for repeat in range(repeats + 3):
        for name, optimizer in rivals.items():
            elapsed = seconds(optimizer.step)
            if repeat >= 3:
                times[name].append(elapsed)
    best = {name: min(values) for name, values in times.items()}
    ratios = [theirs / ours for ours, theirs in zip(times["LMO"], times["torch.optim.Muon"], strict=True)]
    described = ", ".join(
        f"{name} {1e3 * best[name]:.1f} ms (median {1e3 * statistics.median(times[name]):.1f})" for name in times
    )
    print(
        f"{threads} thread(s), {len(shapes)} matrices, {repeats} steps: {described}; "
        f"LMO is {best['torch.optim.Muon'] / best['LMO']:.2f} times as fast "
        f"(median of neighbouring steps {statistics.median(ratios):.2f})"
    )


def measure_memory(name: str) -> None:
    """Most memory that one step holds at a time above what was there before it, by the allocator's own record."""
    torch.set_num_threads(1)
    optimizer = optimizers([p.shape for p in hidden_matrices()], "bfloat16", "quintic")[name]
    optimizer.step()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profile:
        optimizer.step()
    held = peak = 0
    for event in profile.profiler.kineto_results.events():
        if event.name() == "[memory]":
            held += event.nbytes()
            peak = max(peak, held)
    parameters = sum(p.numel() for p in optimizer.param_groups[0]["params"]) * 4
    print(f"{name}: a step holds {peak / 2**20:.1f} MiB more; parameters take {parameters / 2**20:.1f} MiB")


def main(words: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--repeats", type=int, default=30)
    parser.add_argument("--child", help=argparse.SUPPRESS)
    arguments = parser.parse_args(words)
    if arguments.child == "time":
        measure_time(arguments.threads[0], arguments.repeats)
    elif arguments.child is not None:
        measure_memory(arguments.child)
    else:
        command = [sys.executable, "-m", "benchmarks.lmo", "--repeats", str(arguments.repeats)]
        for threads in arguments.threads:
            environment = {**os.environ, "OMP_NUM_THREADS": str(threads)}
            subprocess.run([*command, "--threads", str(threads), "--child", "time"], env=environment, check=True)
        for name in ("LMO", "torch.optim.Muon"):
            subprocess.run([*command, "--child", name], check=True)


def run() -> None:
    """All parts, as the command without arguments."""
    main([])


if __name__ == "__main__":
    main()
