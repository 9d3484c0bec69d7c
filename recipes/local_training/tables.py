"""The factorial as Markdown tables and as CSV."""

from __future__ import annotations

import csv
import io
import itertools
import math
from collections.abc import Sequence

from recipes.local_training.factorial import Cell

__all__ = ["csv_table", "markdown_tables"]


def markdown_tables(cells: Sequence[Cell]) -> str:
    """One table for each condition: a row per variant, a column per p; mean, standard deviation, step size."""
    tables = []
    for (slowdown, travel, window), group in itertools.groupby(cells, _condition):
        of_condition = list(group)
        fractions = list(dict.fromkeys(cell.setting.sparsity for cell in of_condition if cell.setting.sparsity))
        rows: dict[str, list[str]] = {}
        for cell in of_condition:
            if cell.setting.sparsity:
                rows.setdefault(cell.setting.variant, []).append(_text(cell))
        workers = "equal workers" if slowdown == 1 else f"half of the workers {slowdown:g} times slower"
        control = ", ".join(_text(cell) for cell in of_condition if not cell.setting.sparsity)
        header = ["", *(f"p = {p:g}" for p in fractions)]
        tables.append(
            f"**{workers[0].upper()}{workers[1:]}, message {travel:g}, window {window:g}**; never communicating, "
            f"p = 0: {control}\n\n"
            + "\n".join(
                "| " + " | ".join(line) + " |"
                for line in [header, ["---", *["---:"] * len(fractions)], *([name, *row] for name, row in rows.items())]
            )
        )
    return "\n\n".join(tables) + "\n"


def csv_table(cells: Sequence[Cell]) -> str:
    """One line per cell and reported seed."""
    text = io.StringIO()
    writer = csv.DictWriter(text, [*cells[0].row(), "seed_index", "time"], lineterminator="\n")
    writer.writeheader()
    for cell in cells:
        for index, time in enumerate(cell.times):
            writer.writerow({**cell.row(), "seed_index": index, "time": time})
    return text.getvalue()


def _condition(cell: Cell) -> tuple[float, float, float]:
    return cell.setting.slowdown, cell.setting.travel, cell.setting.window


def _text(cell: Cell) -> str:
    arrived = [time for time in cell.times if math.isfinite(time)]
    if len(arrived) < len(cell.times):
        return f"{len(arrived)} of {len(cell.times)} arrived ({cell.lr:g})"
    return f"{cell.mean:.0f} ± {cell.deviation:.0f} ({cell.lr:g})"
