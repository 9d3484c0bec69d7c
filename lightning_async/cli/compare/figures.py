"""Curves of the target's metric and of the loss against logical time, or against another axis."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from numpy.typing import NDArray

from lightning_async.cli.compare.axes import figure_name, positions, scale
from lightning_async.cli.compare.holding import on_grid
from lightning_async.cli.compare.results import RunResult
from lightning_async.cli.compare.schema import LOGICAL_TIME, Axis, Comparison
from lightning_async.cli.compare.summary import Line, summarize

# Okabe and Ito's palette without yellow: told apart with any colour vision, and with the dashes also in grey.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
_DASHES: tuple[tuple[int, tuple[float, ...]], ...] = ((0, ()), (0, (5, 1)), (0, (3, 1, 1, 1)), (0, (1, 1)))

_GREY, _TARGET = "0.3", (0, (4, 3))

_MEAN = "mean over seeds"


def write_figure(
    comparison: Comparison,
    results: Mapping[str, RunResult],
    output: Path,
    axis: Axis = LOGICAL_TIME,
    order: Sequence[str] = (),
) -> list[Path]:
    """Draws one row per panel, the metric on the left and the loss, if it is another one, on the right; PNG and PDF.

    Lines are means over seeds, bands one standard error of the mean to either side. Where only some of the seeds have
    a value (they diverged, or stopped at the target) the remaining ones are drawn singly.

    Args:
        comparison: The comparison.
        results: Results of its runs by key.
        output: Folder for the files.
        axis: What progress is measured in.
        order: Names of methods in the order of their colours and dashes, so that a method looks the same where others
            are left out; that of the comparison if it is empty.

    Returns:
        The files, the PNG first.
    """
    with matplotlib.rc_context({"font.size": 9, "axes.spines.top": False, "axes.spines.right": False}):
        columns = 1 if comparison.loss == comparison.target.metric else 2
        figure = Figure(figsize=(1.8 + 3.6 * columns, 0.9 + 3.1 * len(comparison.panels)), layout="constrained")
        axes = figure.subplots(len(comparison.panels), columns, squeeze=False)
        order = order or list(dict.fromkeys(entry.name for panel in comparison.panels for entry in panel.methods))
        labels: dict[str, str] = {}
        diverged = False
        for panel, (left, *right) in zip(comparison.panels, axes, strict=True):
            lines = summarize(comparison, panel, results, axis)
            grid = _grid(comparison, lines, results, axis)
            for line in lines:
                style = _style(order.index(line.entry.name))
                if line.outcomes:
                    labels[line.entry.name] = line.entry.label
                diverged |= line.count("diverged") > 0
                _draw(left, line, comparison, results, axis, grid, comparison.target.metric, style)
                for loss in right:
                    _draw(loss, line, comparison, results, axis, grid, comparison.loss, style)
            _finish_metric(left, lines, comparison, order)
            for loss in right:
                _finish_loss(loss, comparison)
            for axes_of_panel in (left, *right):
                axes_of_panel.set_xlim(0, grid[-1])
                _label_progress(axes_of_panel, axis)
            left.set_title(_mathematics(panel.title or panel.name), loc="left", fontsize=10)
        handles = [_style(order.index(name)).legend(_mathematics(labels[name])) for name in order if name in labels]
        # In the axes its name would hide whoever arrives there.
        target = f"target {comparison.target.value:g}"
        handles.append(Line2D([], [], color=_GREY, linewidth=0.8, linestyle=_TARGET, label=target))
        handles.append(_marker("v", f"mean {'time' if axis == LOGICAL_TIME else axis.unit} to target"))
        if diverged:
            handles.append(_marker("x", "run diverged"))
        figure.legend(handles=handles, loc="outside lower center", ncol=2 * columns, frameon=False)
        files = [output / f"{figure_name(axis)}.{suffix}" for suffix in ("png", "pdf")]
        for file in files:
            figure.savefig(file, dpi=160)
    return files


@dataclass(frozen=True)
class _Style:
    """How a method looks in every panel."""

    color: str
    linestyle: tuple[int, tuple[float, ...]]

    def legend(self, label: str) -> Line2D:
        return Line2D([], [], color=self.color, linestyle=self.linestyle, linewidth=1.6, label=label)


def _style(index: int) -> _Style:
    return _Style(_COLOURS[index % len(_COLOURS)], _DASHES[index % len(_DASHES)])


def _mathematics(text: str) -> str:
    return re.sub(r"(\d+)\^(-?\d+)", r"$\1^{\2}$", text.replace("$", r"\$"))


def _marker(marker: str, label: str) -> Line2D:
    return Line2D([], [], color=_GREY, marker=marker, linestyle="none", markersize=5, label=label)


def _grid(
    comparison: Comparison, lines: Sequence[Line], results: Mapping[str, RunResult], axis: Axis
) -> NDArray[np.float64]:
    if axis == LOGICAL_TIME:
        return np.arange(0.0, comparison.budget + comparison.evaluate_every / 2, comparison.evaluate_every)
    runs = [results[run.key] for line in lines for run in line.runs.values() if run.key in results]
    largest = max((where[-1] for run in runs if (where := positions(run, axis))), default=0.0)
    count = math.ceil(comparison.budget / comparison.evaluate_every)
    return np.linspace(0.0, largest or 1.0, 2 * count + 1)


def _draw(
    axes: Axes,
    line: Line,
    comparison: Comparison,
    results: Mapping[str, RunResult],
    axis: Axis,
    grid: NDArray[np.float64],
    metric: str,
    style: _Style,
) -> None:
    target = comparison.target
    runs = [on_grid(run, results[run.key], target) for run in line.runs.values() if run.key in results]
    runs = [run for run in runs if metric in run.metrics and positions(run, axis)]
    if not runs:
        return
    curves = np.array([_curve(run, positions(run, axis), metric, grid, target.window) for run in runs])
    mean = curves.mean(axis=0)
    axes.plot(grid, mean, color=style.color, linestyle=style.linestyle, linewidth=1.6, gid=_MEAN)
    band = np.isfinite(mean)
    if len(curves) > 1:
        error = curves.std(axis=0, ddof=1) / math.sqrt(len(curves))
        low, high = (mean - error)[band], (mean + error)[band]
        axes.fill_between(grid[band], low, high, color=style.color, alpha=0.15, linewidth=0)
    # Single curves go on from where the mean ends. Given the same time, one run sends a little more than another: that
    # alone is not drawn.
    inside = band & np.append(band[1:], True) & np.insert(band[:-1], 0, True)
    singly = axis == LOGICAL_TIME or any(run.status == "diverged" for run in runs)
    for run, curve in zip(runs, curves, strict=True):
        if singly:
            axes.plot(grid, np.where(inside, math.nan, curve), color=style.color, linewidth=0.7, alpha=0.8)
        finite = np.flatnonzero(np.isfinite(curve))
        if run.status == "diverged" and finite.size:
            axes.plot(grid[finite[-1]], curve[finite[-1]], "x", color=style.color, markersize=5)


def _curve(
    run: RunResult, where: Sequence[float], metric: str, grid: NDArray[np.float64], window: int
) -> NDArray[np.float64]:
    """Returns the running mean, as the target takes it, at the points of the grid; NaN before and after the run."""
    values = np.asarray(run.metrics[metric], dtype=np.float64)
    times = np.asarray(where, dtype=np.float64)
    width = min(window, len(values))
    smooth = np.convolve(values, np.full(width, 1.0 / width), mode="valid")
    times = times[width - 1 :]
    curve: NDArray[np.float64] = np.interp(grid, times, smooth, left=math.nan)
    # The last update before the end of the budget is rarely on the grid, hence a little room.
    spacing = grid[1] - grid[0] if len(grid) > 1 else 0.0
    return np.where(grid <= times[-1] + spacing / 2, curve, math.nan)


def _finish_metric(axes: Axes, lines: Sequence[Line], comparison: Comparison, order: Sequence[str]) -> None:
    target = comparison.target
    axes.axhline(target.value, color=_GREY, linewidth=0.8, linestyle=_TARGET, zorder=0)
    for line in lines:
        if line.time.bound == "=" and line.time.count:
            colour = _style(order.index(line.entry.name)).color
            axes.plot(line.time.mean, target.value, "v", color=colour, markersize=6, markeredgecolor="white", zorder=5)
    # The early part of every curve is steep and the same for all: the region around the target is what matters.
    low, high = _range(axes, (0.12, 1.0) if target.mode == "max" else (0.0, 0.88))
    _set_range(axes, min(low, target.value), max(high, target.value))
    _label(axes, comparison, target.metric)


def _finish_loss(axes: Axes, comparison: Comparison) -> None:
    _set_range(axes, *_range(axes, (0.0, 0.9)))
    _label(axes, comparison, comparison.loss)


def _range(axes: Axes, quantiles: tuple[float, float]) -> tuple[float, float]:
    values = [value for curve in axes.lines for value in _finite(curve)]
    low, high = map(float, np.quantile(values, quantiles) if values else (0.0, 1.0))
    # Where a method ends must be seen, unless all the others would be squeezed flat by it.
    ends = [finite[-1] for curve in axes.lines if curve.get_gid() == _MEAN and (finite := _finite(curve)).size]
    room = 2.0 * (high - low)
    near = [end for end in ends if low - room <= end <= high + room]
    return min([low, *near]), max([high, *near])


def _finite(curve: Line2D) -> NDArray[np.float64]:
    values = np.asarray(curve.get_ydata(), dtype=np.float64)
    return values[np.isfinite(values)]


def _set_range(axes: Axes, low: float, high: float) -> None:
    room = 0.05 * (high - low) or 0.05 * abs(high) or 0.05
    axes.set_ylim(low - room, high + room)


def _label_progress(axes: Axes, axis: Axis) -> None:
    unit, power = scale(axes.get_xlim())
    axes.xaxis.set_major_formatter(lambda value, _: f"{value / unit:g}")
    axes.set_xlabel(_mathematics(f"{power}{axis.unit}"))


def _label(axes: Axes, comparison: Comparison, name: str) -> None:
    window = comparison.target.window
    axes.set_ylabel(f"{name} (mean of {window} evaluations)" if window > 1 else name)
    axes.grid(alpha=0.25, linewidth=0.5)
