"""Run the benchmarks: ``python -m benchmarks [name ...]``, all of them if none is named.

A benchmark is a module of this package with a function `run`, which returns a table or prints for itself.
"""

import argparse
import importlib
import pkgutil
import sys

import torch
from rich.console import Console

import benchmarks


def names() -> list[str]:
    modules = [module.name for module in pkgutil.iter_modules(benchmarks.__path__) if not module.name.startswith("_")]
    return [name for name in modules if hasattr(importlib.import_module(f"benchmarks.{name}"), "run")]


def main() -> int:
    known = names()
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="name", help=f"one of {', '.join(known)}; all if none is given")
    chosen = parser.parse_args().names or known
    if unknown := sorted(set(chosen) - set(known)):
        parser.error(f"unknown benchmark {', '.join(unknown)}; there are {', '.join(known)}")
    torch.set_num_threads(1)
    console = Console()
    for name in chosen:
        table = importlib.import_module(f"benchmarks.{name}").run()
        if table is not None:
            console.print(table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
