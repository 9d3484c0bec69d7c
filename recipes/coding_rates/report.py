"""Slopes, factors over centralised SGD, and a figure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from lightning_async.cli.compare.results import write_atomically
from lightning_async.cli.compare.tables import markdown_table
from recipes.coding_rates.running import Result
from recipes.coding_rates.settings import PROBLEMS, SCHEMES, ProblemName, Study
from recipes.coding_rates.slopes import Interval, interval, slope

__all__ = ["Line", "summarize", "write_report"]

# Okabe and Ito's palette, with dashes that tell the lines apart in grey as well.
_STYLES = (
    ("#000000", (0, ())),
    ("#56B4E9", (0, (5, 1))),
    ("#0072B2", (0, ())),
    ("#009E73", (0, (3, 1, 1, 1))),
    ("#D55E00", (0, (1, 1))),
)
_ERRORS = {"a9a": "f(x) - min f", "network": "mean of squared gradient norms"}
_EXPECTED = {"a9a": -1.0, "network": -0.5}


@dataclass(frozen=True)
class Line:
    """One scheme on one problem.

    Attributes:
        steps: Numbers of updates, (points,).
        errors: What became of the error by then, (seeds, points).
        slope: Of the logarithm of the error against that of the number of updates, over the fitted points.
        last: The error at the end.
        factor: Error over that of the first scheme under the same seed, geometric mean over the fitted points; None for
            the first scheme itself.
    """

    scheme: str
    steps: NDArray[np.float64]
    errors: NDArray[np.float64]
    slope: Interval
    last: Interval
    factor: Interval | None


def summarize(study: Study, problem: ProblemName, results: Mapping[str, Result]) -> list[Line]:
    """The table of one problem, in the order of the configuration."""
    lines: list[Line] = []
    for scheme in study.schemes:
        curves = [[results[run.key] for run in study.runs(problem, scheme, seed)] for seed in study.seeds]
        steps = np.array([step for result in curves[0] for step in result.steps], dtype=np.float64)
        errors = np.array([[error for result in curve for error in result.errors] for curve in curves])
        # On a9a steps are scale / (t + offset), and it is in t + offset that the error falls as a power from the start.
        shift = study.offset if problem == "a9a" else 0.0
        fitted = steps >= steps[-1] / 2**study.fitted if problem == "a9a" else np.ones(len(steps), dtype=bool)
        ratios = None
        if lines:
            ratios = np.exp(np.log(errors[:, fitted] / lines[0].errors[:, fitted]).mean(axis=1))
        lines.append(
            Line(
                scheme,
                steps,
                errors,
                interval([slope(steps[fitted] + shift, row[fitted]) for row in errors]),
                interval(errors[:, -1].tolist()),
                None if ratios is None else interval(ratios.tolist()),
            )
        )
    return lines


def write_report(study: Study, results: Mapping[str, Result], output: Path, command: str) -> str:
    """Write the figure (PNG, PDF) and ``report.md``; return the tables."""
    lines = {problem: summarize(study, problem, results) for problem in PROBLEMS}
    _draw(study, lines, output)
    tables = "\n".join(f"{_title(study, problem)}\n\n{_table(problem, rows)}" for problem, rows in lines.items())
    page = (
        f"# Rates of convergence of gradient coding\n\n{tables}\n![Error against updates](rates.png)\n\n"
        f"Means and 95 % intervals over {len(study.seeds)} seeds (Student's).\n\n```bash\n{command}\n```\n"
    )
    write_atomically(output / "report.md", page)
    return tables


def _title(study: Study, problem: ProblemName) -> str:
    if problem == "a9a":
        first = study.updates // 2**study.fitted
        return (
            f"a9a, l2 = {study.l2:g}: f - min f, steps {study.scale:g} / (t + {study.offset:g}); slope against "
            f"t + {study.offset:g} for t from {first:,} to {study.updates:,}"
        )
    return (
        f"Network: mean of the squared gradient norms over a run of T updates with steps {study.network_scale:g} / "
        f"sqrt(T); slope against T in {', '.join(f'{h:,}' for h in sorted(study.horizons))}"
    )


def _table(problem: ProblemName, rows: list[Line]) -> str:
    first = SCHEMES[rows[0].scheme].label
    header = ["Scheme", f"slope (expected {_EXPECTED[problem]:g})", "error at the end", f"error over that of {first}"]
    cells = [
        [
            SCHEMES[line.scheme].label,
            str(line.slope),
            f"{line.last.mean:.3g} +- {line.last.half:.2g}",
            "1" if line.factor is None else f"{line.factor.mean:.3g} +- {line.factor.half:.2g}",
        ]
        for line in rows
    ]
    return markdown_table(header, cells)


def _draw(study: Study, lines: Mapping[ProblemName, list[Line]], output: Path) -> None:
    with matplotlib.rc_context({"font.size": 9, "axes.spines.top": False, "axes.spines.right": False}):
        figure = Figure(figsize=(7.6, 3.6), layout="constrained")
        axes = figure.subplots(1, len(lines), squeeze=False)[0]
        for axis, (problem, rows) in zip(axes, lines.items(), strict=True):
            _draw_problem(axis, problem, rows)
        handles, labels = axes[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncol=3, frameon=False)
        output.mkdir(parents=True, exist_ok=True)
        for name in ("rates.png", "rates.pdf"):
            figure.savefig(output / name, dpi=130)


def _draw_problem(axis: Axes, problem: ProblemName, rows: list[Line]) -> None:
    for number, line in enumerate(rows):
        color, dashes = _STYLES[number % len(_STYLES)]
        logs = np.log(line.errors)
        mean, error = logs.mean(axis=0), logs.std(axis=0, ddof=1) / len(logs) ** 0.5
        marker = "o" if problem == "network" else None
        axis.plot(
            line.steps,
            np.exp(mean),
            color=color,
            linestyle=dashes,
            linewidth=1.4,
            marker=marker,
            markersize=3,
            label=SCHEMES[line.scheme].label,
        )
        axis.fill_between(line.steps, np.exp(mean - error), np.exp(mean + error), color=color, alpha=0.15, linewidth=0)
    power = _EXPECTED[problem]
    ends = np.array([rows[0].steps[-1] / 8, rows[0].steps[-1]])
    below = 0.6 * float(np.exp(np.log(rows[0].errors[:, -1]).mean()))
    axis.plot(ends, below * (ends / ends[-1]) ** power, color="0.4", linewidth=0.9)
    axis.annotate(
        "1/T" if power == -1.0 else "1/sqrt(T)",
        (ends[0], below * 8**-power),
        fontsize=8,
        color="0.3",
        va="top",
        ha="right",
    )
    axis.set(xscale="log", yscale="log", title=problem, xlabel="updates T", ylabel=_ERRORS[problem])
    if problem == "network":
        axis.set_xticks(rows[0].steps, [f"{steps:,.0f}" for steps in rows[0].steps])
        axis.set_xticks([], minor=True)
    axis.grid(alpha=0.25, linewidth=0.5)
