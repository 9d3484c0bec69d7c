"""Figure, table and report of the study."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from rich.console import Console
from rich.table import Table

from lightning_async.cli.compare.measures import Estimate
from lightning_async.cli.compare.results import write_atomically
from lightning_async.cli.compare.tables import markdown_table
from recipes.quadratic.settings import LABELS, Study
from recipes.quadratic.summary import Line, Read, summarize

__all__ = ["write_report"]

# Okabe and Ito's palette, with dashes that tell the lines apart in grey as well.
_STYLES = {
    "ringmaster": ("#0072B2", "-"),
    "parameter_agnostic": ("#D55E00", (0, (5, 1))),
    "rennala": ("#009E73", (0, (3, 1, 1, 1))),
    "delay_adaptive": ("#CC79A7", (0, (1, 1))),
}
_COLUMNS = ("method", "step", "R, B", "time to target", "reached", "over Ringmaster's", "final gap", "updates")
_TIMES = {"uniform": "2 + |N(0, 2)|", "sqrt": "1 + sqrt(i) + |N(0, 1 + i)|", "linear": "1 + i + |N(0, 1 + i^2)|"}


def write_report(study: Study, results: Read, output: Path, command: str) -> str:
    """Write figure (PNG, PDF), ``table.md`` and ``report.md``, print the tables, and return the findings."""
    lines = {profile: summarize(study, profile, results) for profile in study.profiles}
    _draw(study, lines, output)
    tables, findings = [], []
    console = Console()
    for profile, rows in lines.items():
        cells = [_cells(line) for line in rows]
        title = f"{profile}: worker i takes {_TIMES[profile]}, gap {study.profiles[profile].target:g}"
        table = Table(*_COLUMNS, title=title)
        for row in cells:
            table.add_row(*row)
        console.print(table)
        tables.append(f"### {title}\n\n{markdown_table(_COLUMNS, cells)}")
        findings.append(f"* {profile}: {_finding(rows)}")
    text = "\n".join(findings)
    write_atomically(output / "table.md", "\n".join(tables))
    write_atomically(output / "report.md", _page(study, text, "\n".join(tables), command))
    return text


def _finding(rows: list[Line]) -> str:
    first, *others = rows
    if first.method != "ringmaster":
        return "Ringmaster was not run"
    if not others:
        return "Ringmaster ran alone"
    parts = []
    for line in others:
        assert line.behind is not None
        if line.behind.bound == "?" or not line.behind.count:
            parts.append(f"nothing can be said against {LABELS[line.method]}, as too few runs arrive")
        else:
            parts.append(f"{_compared(line.behind)} {LABELS[line.method]}")
    return "Ringmaster is " + "; ".join(parts) + "."


def _compared(behind: Estimate) -> str:
    ratio = f"factor {_with_error(behind)}"
    error = 0.0 if math.isnan(behind.error) else behind.error
    if behind.bound == "=" and abs(behind.mean - 1.0) <= 2.0 * error:
        return f"level within two standard errors ({ratio}) with"
    return f"{'ahead of' if behind.mean > 1.0 else 'behind'} ({ratio})"


def _with_error(estimate: Estimate) -> str:
    sign = "" if estimate.bound == "=" else f"{estimate.bound} "
    error = "" if math.isnan(estimate.error) else f" +- {estimate.error:.2g}"
    return f"{sign}{estimate.mean:.4g}{error}" if estimate.count else "-"


def _cells(line: Line) -> list[str]:
    step, count = line.point
    results = list(line.results.values())
    return [
        LABELS[line.method],
        f"{step:g}{' *' if line.at_edge else ''}",
        "-" if count is None else str(count),
        _with_error(line.time),
        f"{line.arrived} of {len(results)}",
        "1" if line.behind is None else _with_error(line.behind),
        _with_error(line.final),
        f"{sum(result.updates for result in results) / len(results):,.0f}",
    ]


def _draw(study: Study, lines: Mapping[str, list[Line]], output: Path) -> None:
    with matplotlib.rc_context({"font.size": 9, "axes.spines.top": False, "axes.spines.right": False}):
        figure = Figure(figsize=(3.6 * max(2, len(lines)), 3.6), layout="constrained")
        axes = figure.subplots(1, len(lines), squeeze=False)[0]
        for axis, (profile, rows) in zip(axes, lines.items(), strict=True):
            for line in rows:
                _draw_line(axis, study, profile, line)
            axis.axhline(study.profiles[profile].target, color="0.3", linewidth=0.8, linestyle=(0, (4, 3)))
            axis.set(title=profile, xlabel="logical time", xlim=(0, study.profiles[profile].horizon), yscale="log")
            axis.grid(alpha=0.25, linewidth=0.5)
            best = min(min(result.gaps) for line in rows for result in line.results.values())
            axis.set_ylim(best / 1.5, 3.0 * rows[0].results[study.seeds[0]].gaps[0])
        axes[0].set_ylabel("f(x) - min f")
        handles, labels = axes[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncol=4, frameon=False)
        output.mkdir(parents=True, exist_ok=True)
        for name in ("curves.png", "curves.pdf"):
            figure.savefig(output / name, dpi=160)


def _draw_line(axis: Axes, study: Study, profile: str, line: Line) -> None:
    color, dashes = _STYLES[line.method]
    grid = np.linspace(0.0, study.profiles[profile].horizon, study.evaluations + 1)
    curves = np.array([np.interp(grid, r.times, np.log(r.gaps), right=math.nan) for r in line.results.values()])
    mean = curves.mean(axis=0)
    axis.plot(grid, np.exp(mean), color=color, linestyle=dashes, linewidth=1.6, label=LABELS[line.method])
    if len(curves) > 1:
        error = curves.std(axis=0, ddof=1) / math.sqrt(len(curves))
        axis.fill_between(grid, np.exp(mean - error), np.exp(mean + error), color=color, alpha=0.2, linewidth=0)


def _page(study: Study, findings: str, tables: str, command: str) -> str:
    steps = (
        "plain SGD, whose steps are eta times the gradient; the parameter-agnostic method, which is defined with an\n"
        "  oracle only, takes steps of constant length along its averaged momentum (Euclidean ball)"
        if study.steps == "sgd"
        else "steps of constant length along averaged momentum (Euclidean ball), 0.95 where a method does not set it"
    )
    return f"""# Nesterov's quadratic: d = {study.dimension:,}, n = {study.workers:,} workers

* Objective: x'Ax/2 - b'x, A = tridiag(-1, 2, -1)/4, b = (-1, 0, ..., 0)/4, x_0 = (sqrt d, 0, ...), Gaussian noise of
  standard deviation {study.noise:g} on every coordinate of a gradient
* Steps: {steps}
* Grids are searched on seed(s) {", ".join(map(str, study.tuning_seeds))} for the shortest time to the target gap;
  reported are seeds {", ".join(map(str, study.seeds))}

## Findings

{findings}

![f(x) - min f against logical time](curves.png)

Lines are geometric means over seeds, bands one standard error to either side.

{tables}
Mean and standard error over seeds; a ratio above 1 says how much longer than Ringmaster, paired by seed. A
run that does not arrive is censored at its horizon, which makes the mean a bound (`>`, `<`). `*`: at the edge of its
grid, a better value may lie outside.

## Rerun

```bash
{command}
```

Finished runs are kept in `runs/` and skipped.
"""
