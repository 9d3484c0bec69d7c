"""Measured cells as a figure: one panel per condition, results against the fraction that is sent."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from pathlib import Path

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from recipes.local_training.cells import Cell
from recipes.local_training.tables import condition

__all__ = ["write_figure"]

# Okabe and Ito's palette, with dashes that tell the lines apart in grey as well.
_STYLES = {"blocking": ("#D55E00", "--"), "overwrite": ("#CC79A7", "-."), "corrected": ("#0072B2", "-")}
_COLUMNS = 4


def write_figure(cells: Sequence[Cell], label: str, path: Path) -> None:
    """Draw mean and standard deviation over the seeds, and the control that never communicates as a horizontal line.

    Args:
        cells: what was measured, ordered by condition.
        label: of the vertical axis.
        path: the PNG.
    """
    panels = [(title, list(group)) for title, group in itertools.groupby(cells, lambda cell: condition(cell.setting))]
    columns = min(_COLUMNS, len(panels))
    rows = math.ceil(len(panels) / columns)
    with matplotlib.rc_context({"font.size": 8, "axes.spines.top": False, "axes.spines.right": False}):
        figure = Figure(figsize=(2.9 * columns, 0.5 + 2.3 * rows), layout="constrained")
        axes = figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=True)
        for place, (title, of_condition) in zip(axes.flat, panels, strict=False):
            _draw(place, of_condition)
            place.set_title(_two_lines(title), loc="left", fontsize=8)
        for row in axes:
            row[0].set_ylabel(label)
        for place in axes[-1]:
            place.set_xlabel("fraction p that is sent")
        figure.legend(*axes[0][0].get_legend_handles_labels(), loc="outside lower center", ncol=4, frameon=False)
        figure.savefig(path, dpi=100)


def _draw(axes: Axes, cells: list[Cell]) -> None:
    for variant, (colour, line) in _STYLES.items():
        mine = [cell for cell in cells if cell.setting.variant == variant and cell.setting.sparsity]
        points = [cell.setting.sparsity for cell in mine], [cell.mean for cell in mine]
        deviations = [cell.deviation for cell in mine]
        axes.errorbar(*points, deviations, color=colour, linestyle=line, marker="o", markersize=3, label=variant)
    for cell in cells:
        if not cell.setting.sparsity:
            axes.axhline(cell.mean, color="0.4", linewidth=0.9, linestyle=":", label="never communicating")
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.grid(alpha=0.25, linewidth=0.5)


def _two_lines(title: str) -> str:
    first, rest = title.split(", ", 1)
    return f"{first},\n{rest}"
