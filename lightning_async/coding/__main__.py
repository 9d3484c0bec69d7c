"""Print the expected relative errors of gradient codes: ``python -m lightning_async.coding``."""

from __future__ import annotations

import argparse

import numpy as np
from rich.console import Console
from rich.table import Table

from lightning_async.arguments import count, real
from lightning_async.coding.comparison import RelativeErrors, compare_codes

_MOST_WORKERS = 100  # sampled sets of more take minutes


def main() -> None:
    """Tabulate E||ghat - g||^2 / ||g||^2 for workers whose straggling probabilities grow linearly."""
    parser = argparse.ArgumentParser(prog="python -m lightning_async.coding", description=main.__doc__)
    parser.add_argument(
        "--workers", type=int, default=10, help=f"number of workers and partitions, 2 to {_MOST_WORKERS} (default 10)"
    )
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
    try:
        tables = [(budget, _compare(options, budget)) for budget in options.budget]
    except ValueError as error:
        parser.error(str(error))
    console = Console()
    if not console.is_terminal:
        console.width = 120
    for budget, rows in tables:
        table = Table("scheme", *(f"rho = {rho:g}" for rho in options.rho), "load", title=f"{budget} bits a coordinate")
        for row in rows:
            table.add_row(row.scheme, *_errors(row), f"{row.load:.2g}")
        if any(row.standard_errors for row in rows):
            table.caption = "± standard error over sampled sets of arrived workers, too many to enumerate; others exact"
        console.print(table)


def _compare(options: argparse.Namespace, budget: int) -> list[RelativeErrors]:
    workers = count("--workers", options.workers, at_least=2, at_most=_MOST_WORKERS)
    first, last = (real("--p", p, at_least=0.0, below=1.0) for p in options.p)
    return compare_codes(
        np.linspace(first, last, workers),
        count("--budget", budget),
        partitions=workers,
        kappa=real("--kappa", options.kappa, above=0.0),
        correlations=options.rho,
        quantizer="dither",
    )


def _errors(row: RelativeErrors) -> list[str]:
    if not row.standard_errors:
        return [f"{error:.3g}" for error in row.errors]
    return [f"{error:.3g} ± {se:.1g}" for error, se in zip(row.errors, row.standard_errors, strict=True)]


if __name__ == "__main__":
    main()
