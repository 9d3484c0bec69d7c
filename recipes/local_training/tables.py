"""Measured cells as Markdown tables and as CSV."""

from __future__ import annotations

import csv
import io
import itertools
import math
from collections.abc import Callable, Sequence

from lightning_async.cli.compare.tables import markdown_table
from recipes.local_training.cells import Cell
from recipes.local_training.logistic import Setting

__all__ = ["cell_text", "condition", "csv_table", "markdown_tables"]


def markdown_tables(cells: Sequence[Cell], number: Callable[[float], str]) -> str:
    """One table for each condition: a row per variant, a column per p; mean, standard deviation, step size.

    Args:
        cells: what was measured, ordered by condition.
        number: how a result is written.
    """
    tables = []
    for title, group in itertools.groupby(cells, lambda cell: condition(cell.setting)):
        of_condition = list(group)
        fractions = list(dict.fromkeys(cell.setting.sparsity for cell in of_condition if cell.setting.sparsity))
        rows: dict[str, list[str]] = {}
        for cell in of_condition:
            if cell.setting.sparsity:
                rows.setdefault(cell.setting.variant, []).append(cell_text(cell, number))
        control = ", ".join(cell_text(cell, number) for cell in of_condition if not cell.setting.sparsity)
        table = markdown_table(["", *(f"p = {p:g}" for p in fractions)], [[name, *row] for name, row in rows.items()])
        tables.append(f"**{title}**; never communicating, p = 0: {control}\n\n{table}")
    return "\n".join(tables)


def csv_table(cells: Sequence[Cell]) -> str:
    """One line per cell and reported seed."""
    text = io.StringIO()
    writer = csv.DictWriter(text, [*cells[0].row(), "seed_index", "value"], lineterminator="\n")
    writer.writeheader()
    for cell in cells:
        for index, value in enumerate(cell.values):
            writer.writerow({**cell.row(), "seed_index": index, "value": value})
    return text.getvalue()


def condition(setting: Setting) -> str:
    """In words, all of a setting but variant and p."""
    workers = "Equal workers" if setting.slowdown == 1 else f"Half of the workers {setting.slowdown:g} times slower"
    data = ", data sorted by label" if setting.skewed else ""
    return f"{workers}, message {setting.travel:g}, window {setting.window:g}{data}"


def cell_text(cell: Cell, number: Callable[[float], str]) -> str:
    """Mean, standard deviation, and in brackets the step size; or how many seeds have a result."""
    arrived = [value for value in cell.values if math.isfinite(value)]
    if len(arrived) < len(cell.values):
        return f"{len(arrived)} of {len(cell.values)} arrived ({cell.lr:g})"
    spread = f" ± {number(cell.deviation)}" if len(cell.values) > 1 else ""
    return f"{number(cell.mean)}{spread} ({cell.lr:g})"
