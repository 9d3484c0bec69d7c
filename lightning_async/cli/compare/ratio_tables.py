"""The ratios between all methods of a comparison, for Markdown and for LaTeX, and one CSV row per pair."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from lightning_async.cli.compare.ratios import Ratio, all_ratios, best, ratio
from lightning_async.cli.compare.results import RunResult, write_atomically
from lightning_async.cli.compare.schema import LOGICAL_TIME, Axis, Comparison, Panel, Target
from lightning_async.cli.compare.summary import Line, summarize
from lightning_async.cli.compare.tables import format_number, latex_table, markdown_table

_LARGEST_MATRIX = 8  # methods; a wider one does not fit on a page


def write_ratios(comparison: Comparison, results: Mapping[str, RunResult], output: Path) -> str:
    """Writes ratios.md, .tex and .csv, and returns the Markdown; empty, and no file, where there are no pairs."""
    text = ratios_markdown(comparison, results)
    contents = {"md": text, "tex": ratios_latex(comparison, results), "csv": ratios_csv(comparison, results)}
    for suffix, content in contents.items():
        if text:
            write_atomically(output / f"ratios.{suffix}", content)
        else:
            (output / f"ratios.{suffix}").unlink(missing_ok=True)
    return text


def ratios_markdown(comparison: Comparison, results: Mapping[str, RunResult]) -> str:
    """Returns the section of the report, without its heading; empty if no panel has two methods to compare."""
    parts = []
    for panel, axis, lines in _measured(comparison, results):
        title = panel.title or panel.name
        heading = f"### {title}" if axis == LOGICAL_TIME else f"In {axis.unit}:"
        parts.append(f"{heading}\n\n{markdown_table(*ratio_cells(lines, comparison.target))}")
    return "\n".join([_explanation(comparison), *parts]) if parts else ""


def ratios_latex(comparison: Comparison, results: Mapping[str, RunResult]) -> str:
    """Returns the same tables as LaTeX tabulars."""
    return "\n".join(
        f"% {panel.title or panel.name}, {axis.unit}\n{latex_table(*ratio_cells(lines, comparison.target))}"
        for panel, axis, lines in _measured(comparison, results)
    )


def ratios_csv(comparison: Comparison, results: Mapping[str, RunResult]) -> str:
    """Returns one row per panel, axis and ordered pair of methods.

    `low` and `high` are empty where there is no interval. A `bound` is `=` for an estimate, `>` or `<` if runs did not
    reach the target, `?` if nothing can be said.
    """
    text = io.StringIO()
    columns = ["panel", "axis", "method", "over", "bound", "ratio", "low", "high", "standard_error", "pairs", "seeds"]
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    for panel, axis, lines in _measured(comparison, results):
        for (method, over), found in all_ratios(lines).items():
            estimate = found.estimate
            numbers = [estimate.mean, found.low, found.high, estimate.error if estimate.bound == "=" else math.nan]
            writer.writerow(
                [
                    *(panel.name, axis.quantity, method, over, estimate.bound),
                    *("" if math.isnan(value) else value for value in numbers),
                    *(estimate.count, len(comparison.seeds)),
                ]
            )
    return text.getvalue()


def ratio_cells(lines: Sequence[Line], target: Target) -> tuple[list[str], list[list[str]]]:
    """Returns header and cells of a panel's ratios: a matrix or, of many methods, the ratios to the best one.

    Args:
        lines: The lines, of methods that have runs.
        target: What decides which method is best.
    """
    if len(lines) <= _LARGEST_MATRIX:
        found = all_ratios(lines)
        return ["", *(f"over {line.entry.label}" for line in lines)], [
            [
                line.entry.label,
                *(
                    "1" if line is other else _cell(found[line.entry.name, other.entry.name], len(line.runs))
                    for other in lines
                ),
            ]
            for line in lines
        ]
    first = best(lines, target)
    others = [(line, ratio(line.outcomes, first.outcomes)) for line in lines if line is not first]
    others.sort(key=lambda pair: math.inf if math.isnan(pair[1].estimate.mean) else pair[1].estimate.mean)
    rows = [[line.entry.label, _cell(found, len(line.runs))] for line, found in others]
    return ["", f"over {first.entry.label}"], [[first.entry.label, "1"], *rows]


def _cell(found: Ratio, seeds: int) -> str:
    estimate = found.estimate
    if estimate.bound == "?":
        return "undetermined"
    text = format_number(estimate.mean, 3 if estimate.mean >= 1 else 2)
    if math.isfinite(found.low):
        decimals = len(text.partition(".")[2])
        text = f"{text} [{found.low:.{decimals}f}, {found.high:.{decimals}f}]"
    sign = "" if estimate.bound == "=" else f"{estimate.bound} "
    return f"{sign}{text}" + ("" if estimate.count == seeds else f" ({estimate.count} of {seeds} pairs)")


def _measured(comparison: Comparison, results: Mapping[str, RunResult]) -> Iterator[tuple[Panel, Axis, Sequence[Line]]]:
    """Yields what has a table: every panel on every axis on which two of its methods are measured."""
    for panel in comparison.panels:
        for axis in (LOGICAL_TIME, *comparison.axes):
            lines = [line for line in summarize(comparison, panel, results, axis) if line.outcomes]
            if len(lines) > 1:
                yield panel, axis, lines


def _explanation(comparison: Comparison) -> str:
    seeds = len(comparison.seeds)
    interval = f", with Student's 95 % interval of the mean over {seeds} seeds" if seeds > 1 else ""
    many = any(len(panel.methods) > _LARGEST_MATRIX for panel in comparison.panels)
    return (
        "What the method of the row needs to reach the target over what the method of the column needs: 1.5 is half as "
        f"much again. Means of ratios paired by seed, as the speed-ups are{interval}. Where a run did not reach the "
        "target the mean is a bound (`>`, `<`) without an interval, and pairs of which neither run did are left out. "
        "Every interval is for one pair alone: of many pairs, some exclude 1 by chance. "
        + ("Of more than eight methods only the ratios to the best one are listed. " if many else "")
        + "All pairs are in `ratios.csv`.\n"
    )
