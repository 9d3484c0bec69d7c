"""Print the expected relative errors of gradient codes: ``python -m lightning_async.coding``."""

from __future__ import annotations

import argparse

import numpy as np
from rich.console import Console
from rich.table import Table

from lightning_async.coding.comparison import compare_codes


def main() -> None:
    """Tabulate E||ghat - g||^2 / ||g||^2 for workers whose straggling probabilities grow linearly."""
    parser = argparse.ArgumentParser(prog="python -m lightning_async.coding", description=main.__doc__)
    parser.add_argument("--workers", type=int, default=10, help="number of workers and partitions (default 10)")
    parser.add_argument(
        "--p",
        type=float,
        nargs=2,
        default=(0.05, 0.8),
        help="straggling of the best and worst worker (default 0.05 0.8)",
    )
    parser.add_argument(
        "--kappa", type=float, default=9.36, help="squared crest factor (9.36: Gaussian, buckets of 512)"
    )
    parser.add_argument(
        "--budget", type=int, nargs="+", default=[10, 50], help="bits a coordinate over all workers (default 10 50)"
    )
    parser.add_argument(
        "--rho", type=float, nargs="+", default=[0.0, 0.5, 1.0], help="correlations of the gradients (default 0 0.5 1)"
    )
    options = parser.parse_args()
    p = np.linspace(options.p[0], options.p[1], options.workers)
    console = Console()
    if not console.is_terminal:
        console.width = 120
    for budget in options.budget:
        table = Table("scheme", *(f"rho = {rho:g}" for rho in options.rho), "load", title=f"{budget} bits a coordinate")
        rows = compare_codes(
            p, budget, partitions=options.workers, kappa=options.kappa, correlations=options.rho, quantizer="dither"
        )
        for row in rows:
            table.add_row(row.scheme, *(f"{error:.3g}" for error in row.errors), f"{row.load:.2g}")
        console.print(table)


if __name__ == "__main__":
    main()
