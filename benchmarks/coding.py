"""Measured speed of the coding layer: bit allocation by number of workers, and quantising against `torch.rand`.

    python benchmarks/coding.py [allocation] [quantizers] [gap]

One thread. Times are of the processor, the best of several runs, interleaved where they are compared with each other.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

from lightning_async.coding import QSGD, StochasticRounding, SubtractiveDither, allocate_bits, pack, utility

console = Console()
KAPPA = 9.36


def best_seconds(calls: dict[str, Callable[[], object]], repeats: int) -> dict[str, float]:
    """Best processor time of each call over interleaved repeats, so that a busy machine slows all alike."""
    best = dict.fromkeys(calls, float("inf"))
    for repeat in range(repeats + 1):
        for name, call in calls.items():
            start = time.process_time()
            call()
            if repeat:
                best[name] = min(best[name], time.process_time() - start)
    return best


def allocation(largest: int, with_large_dp: bool) -> None:
    table = Table(
        "k", "Z", "kappa", "exact s", "dp s", "greedy s", "U exact / U dp - 1", title="Bit allocation, zmax 16"
    )
    for workers in (100, 1_000, 10_000, 100_000):
        if workers > largest:
            break
        rng = np.random.default_rng(0)
        p = rng.random(workers)
        for label, kappa in (("common", np.float64(KAPPA)), ("per worker", rng.uniform(3, 30, workers))):
            run_dp = workers <= 1_000 or (workers == 10_000 and label == "common" and with_large_dp)
            times, found = {}, {}
            for method in ("exact", "greedy", "dp") if run_dp else ("exact", "greedy"):
                times[method] = np.inf
                for _ in range(1 if method == "dp" else 3):
                    start = time.process_time()
                    z = allocate_bits(p, 10 * workers, kappa=kappa, method=method)  # type: ignore[arg-type]
                    times[method] = min(times[method], time.process_time() - start)
                found[method] = utility(z, p, kappa=kappa)
            dp_time = f"{times['dp']:.3g}" if run_dp else "-"
            gap = f"{found['exact'] / found['dp'] - 1:.1e}" if run_dp else "-"
            table.add_row(
                f"{workers:,}",
                f"{10 * workers:,}",
                label,
                f"{times['exact']:.3g}",
                dp_time,
                f"{times['greedy']:.3g}",
                gap,
            )
    console.print(table)


def gap() -> None:
    table = Table("instances", "number", "missed", "mean gap", "worst gap", title="top_k against exact (common kappa)")
    rng = np.random.default_rng(0)
    cases = (
        ("p in [0, 1), zmax 16, Z <= 2 k", 1.0, 16, 0.2, 2.0),
        ("p in [0, 1), zmax 16, Z = 4 k to 8 k", 1.0, 16, 4.0, 8.0),
        ("p within 0.1, zmax 4, Z <= 3 k", 0.1, 4, 0.2, 3.0),
        ("p within 0.01, zmax 4, Z <= 3 k", 0.01, 4, 0.2, 3.0),
    )
    for label, spread, zmax, low, high in cases:
        gaps = []
        for _ in range(2_000):
            workers = int(rng.integers(2, 9))
            p = rng.uniform(0, 1 - spread) + spread * rng.random(workers)
            kappa, budget = float(np.exp(rng.uniform(-1, 3.5))), max(1, int(rng.uniform(low, high) * workers))
            top_k, exact = (
                utility(allocate_bits(p, budget, kappa=kappa, zmax=zmax, method=method), p, kappa=kappa)
                for method in ("top_k", "exact")
            )
            gaps.append(1 - top_k / exact)
        values = np.array(gaps)
        missed = np.mean(values > 1e-9)
        table.add_row(label, f"{len(gaps):,}", f"{missed:.2%}", f"{values.mean():.1e}", f"{values.max():.2%}")
    console.print(table)


def quantizers(bits: int) -> None:
    table = Table(
        "coordinates",
        "step",
        "ns a coordinate",
        "torch.rand / step",
        title=f"Quantise and pack, z = {bits}, one thread",
    )
    for length in (65_536, 262_144, 1_048_576, 11_173_962):
        vector = torch.randn(length)
        dither, rounding, qsgd = SubtractiveDither(), StochasticRounding(), QSGD()
        message = dither.encode(vector, bits, seed=0)
        indices = torch.randint(0, 2**bits, (length,), dtype=torch.uint8 if bits <= 8 else torch.int32)
        buffer = torch.empty(length)
        times = best_seconds(
            {
                "torch.rand, new tensor": partial(torch.rand, length),
                "torch.rand, into a buffer": partial(torch.rand, length, out=buffer),
                "dither: quantise and pack": partial(dither.encode, vector, bits, seed=0),
                "rounding: quantise and pack": partial(rounding.encode, vector, bits, seed=0),
                "qsgd: quantise and pack": partial(qsgd.encode, vector, bits, seed=0),
                "packing alone": partial(pack, indices, bits),
                "dither: decode": partial(dither.decode, message),
            },
            repeats=30 if length < 10**7 else 8,
        )
        for name, seconds in times.items():
            table.add_row(
                f"{length:,}",
                name,
                f"{1e9 * seconds / length:.2f}",
                f"{times['torch.rand, into a buffer'] / seconds:.2f}",
            )
    console.print(table)


def main(words: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", default=["allocation", "gap", "quantizers"])
    parser.add_argument("--bits", type=int, default=4)
    parser.add_argument("--largest", type=int, default=100_000, help="most workers in the allocation table")
    parser.add_argument("--no-large-dp", action="store_true", help="skip dp at 10,000 workers, which takes a minute")
    options = parser.parse_args(words)
    torch.set_num_threads(1)
    if "allocation" in options.parts:
        allocation(options.largest, not options.no_large_dp)
    if "gap" in options.parts:
        gap()
    if "quantizers" in options.parts:
        quantizers(options.bits)


def run() -> None:
    """All parts, as the command without arguments."""
    main([])


if __name__ == "__main__":
    main()
