"""Figures of the study."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullLocator

from recipes.heavy_tails.settings import LABELS, METHODS, Study
from recipes.heavy_tails.summary import Read, Setting, final_norms, medians, quantile, updates_over_slowdowns

__all__ = ["draw_delays", "draw_tails"]

# Okabe and Ito's palette.
_COLORS = {"vanilla": "#D55E00", "clipped": "#0072B2"}


def draw_delays(study: Study, results: Read, output: Path) -> None:
    """Updates until a run has settled, against D, at the lowest noise: median, interval, 95 % quantile."""
    noise = min(study.noises)

    def draw(axis: Axes, objective: str, theta: float) -> None:
        for method in METHODS:
            setting = Setting(objective, theta, noise, method, study.shown_step)
            samples = updates_over_slowdowns(study, setting, "settled", results)
            ceiling = float(study.updates)
            middle = medians(samples)
            color = _COLORS[method]
            axis.plot(study.slowdowns, [m.value for m in middle], "o-", color=color, markersize=3, label=LABELS[method])
            low, high = ([min(ceiling, getattr(m, end)) for m in middle] for end in ("low", "high"))
            axis.fill_between(study.slowdowns, low, high, color=color, alpha=0.25, linewidth=0)
            upper = np.minimum(quantile(samples, 0.95), ceiling)
            axis.plot(study.slowdowns, upper, ":", color=color, linewidth=1.2, label=f"{LABELS[method]}, 95 % of seeds")
        axis.axhline(study.updates, color="0.6", linewidth=0.8)
        axis.set(xscale="log", yscale="log")
        axis.set_xticks(study.slowdowns, [f"{d:g}" for d in study.slowdowns])
        axis.minorticks_off()

    _grid(study, draw, "D", "updates until settled", output / "delays")


def draw_tails(study: Study, results: Read, output: Path) -> None:
    """Share of the seeds whose last gradient norm is larger, at the highest noise and the largest D."""
    noise, slowdown = max(study.noises), max(study.slowdowns)

    def draw(axis: Axes, objective: str, theta: float) -> None:
        for method in METHODS:
            setting = Setting(objective, theta, noise, method, study.shown_step)
            norms = np.sort(final_norms(study, setting, slowdown, results))
            larger = 1.0 - np.arange(len(norms)) / len(norms)
            axis.step(norms, larger, where="post", color=_COLORS[method], label=LABELS[method])
        axis.axvline(study.eps, color="0.6", linewidth=0.8)
        axis.set(xscale="log", yscale="log", ylim=(0.7 / study.seeds, 1.1))
        axis.xaxis.set_major_locator(LogLocator(subs=(1.0, 3.0)))
        axis.xaxis.set_major_formatter("{x:g}")
        axis.xaxis.set_minor_locator(NullLocator())

    _grid(study, draw, "last gradient norm", "share of seeds above", output / "tails")


def _grid(study: Study, draw: Callable[[Axes, str, float], None], x: str, y: str, path: Path) -> None:
    rows, columns = len(study.objectives), len(study.thetas)
    with matplotlib.rc_context({"font.size": 9, "axes.spines.top": False, "axes.spines.right": False}):
        figure = Figure(figsize=(2.7 * columns + 0.6, 2.2 * rows + 0.7), layout="constrained")
        axes = figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=True)
        for row, objective in zip(axes, study.objectives, strict=True):
            for axis, theta in zip(row, study.thetas, strict=True):
                draw(axis, objective, theta)
                axis.set_title(f"{LABELS[objective]}, theta = {theta:g}", fontsize=9)
                axis.grid(alpha=0.25, linewidth=0.5)
            row[0].set_ylabel(y)
        for axis in axes[-1]:
            axis.set_xlabel(x)
        handles, labels = axes[0][0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncol=4, frameon=False)
        for suffix in (".png", ".pdf"):
            figure.savefig(path.with_suffix(suffix), dpi=120)
