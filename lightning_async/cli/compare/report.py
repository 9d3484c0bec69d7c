"""The one-page report of a comparison, and the files beside it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import yaml  # type: ignore[import-untyped]
from rich.console import Console

from lightning_async.cli.compare.axes import figure_name, reported_axes
from lightning_async.cli.compare.configuration import ComparisonError, Config
from lightning_async.cli.compare.measures import mean_time
from lightning_async.cli.compare.plan import inert_keys, known_runs, run_names, tuning_outcomes, without_left_out
from lightning_async.cli.compare.ratio_tables import write_ratios
from lightning_async.cli.compare.results import RunResult, write_atomically
from lightning_async.cli.compare.rows import results_csv
from lightning_async.cli.compare.schema import LOGICAL_TIME, Comparison, MethodEntry, Panel
from lightning_async.cli.compare.summary import Line, summarize
from lightning_async.cli.compare.tables import (
    axis_cells,
    format_power,
    latex_table,
    markdown_table,
    rich_table,
    table_cells,
)


def write_report(
    comparison: Comparison,
    results: Mapping[str, RunResult],
    output: Path,
    only: frozenset[str] | None = None,
    changed: str = "",
) -> None:
    """Writes tables, ratios, results.csv, curves and report.md, and prints the tables.

    Args:
        comparison: The comparison.
        results: Results of its runs by key; runs that are missing are shown as not run.
        output: Folder for the files.
        only: Names of methods or panels; the others are shown if they have run before, or else left out.
        changed: What has changed in the code of stored runs.

    Raises:
        ComparisonError: If no run logs the target's metric.
    """
    from lightning_async.cli.compare.figures import write_figure

    console = Console()
    whole = replace(comparison, axes=reported_axes(comparison.axes, results.values()))
    order = list(dict.fromkeys(entry.name for panel in whole.panels for entry in panel.methods))
    try:
        comparison, left_out = without_left_out(whole, results, only)
        shown = [results[key] for key in known_runs(comparison, results) if key in results]
        comparison = replace(comparison, axes=reported_axes(whole.axes, shown))
        markdown, latex = _tables(comparison, results, console)
        write_atomically(output / "results.csv", results_csv(whole, results))
    except KeyError as error:
        raise ComparisonError(str(error.args[0])) from error
    write_atomically(output / "table.md", "\n".join(markdown))
    write_atomically(output / "table.tex", "\n".join(latex))
    ratios = write_ratios(comparison, results, output)
    drawn = any(result.times for result in shown)
    if drawn:
        for axis in (LOGICAL_TIME, *comparison.axes):
            write_figure(comparison, results, output, axis, order)
    note = f"Left out, as --only does not name them and they have not run: {', '.join(left_out)}." if left_out else ""
    tables = [_code(changed, "text")] if changed else []
    tables += [*markdown, f"{note}\n"] if note else markdown
    page = _page(comparison, results, tables, ratios, output, drawn=drawn)
    write_atomically(output / "report.md", page)
    _print_failures(console, whole, results)
    if note:
        console.print(note, markup=False, highlight=False, soft_wrap=True)
    console.print(f"Report: {output / 'report.md'}", highlight=False, soft_wrap=True)


def _tables(comparison: Comparison, results: Mapping[str, RunResult], console: Console) -> tuple[list[str], list[str]]:
    """Prints the tables, and returns them in Markdown and in LaTeX."""
    markdown, latex = [], []
    for panel in comparison.panels:
        lines = summarize(comparison, panel, results)
        header, rows = table_cells(lines, comparison.target)
        title = panel.title or panel.name
        console.print(rich_table(title, header, rows))
        inert = _inert(comparison, panel, results)
        console.print(inert, style="red", markup=False, soft_wrap=True, end="")
        markdown.append(f"### {title}\n\n{markdown_table(header, rows)}{_edges(lines)}{inert}")
        latex.append(f"% {title}\n{latex_table(header, rows)}")
        for axis in comparison.axes:
            header, rows = axis_cells(summarize(comparison, panel, results, axis), axis, lines)
            console.print(rich_table(f"{title}: {axis.unit}", header, rows))
            markdown.append(f"In {axis.unit}:\n\n{markdown_table(header, rows)}")
            latex.append(f"% {title}, {axis.unit}\n{latex_table(header, rows)}")
    return markdown, latex


def _edges(lines: list[Line]) -> str:
    if any(line.at_edge for line in lines):
        return "\n\\* at the edge of its grid: a better value may lie outside.\n"
    return ""


def _inert(comparison: Comparison, panel: Panel, results: Mapping[str, RunResult]) -> str:
    return "".join(
        f"\nThe grid of {entry.label} decides nothing: all of its points came out the same, to the last digit. Either "
        f"{' and '.join(keys)} never acts, or something else in the configuration takes its place.\n"
        for entry in panel.methods
        if (keys := inert_keys(comparison, entry, results))
    )


def _page(
    comparison: Comparison,
    results: Mapping[str, RunResult],
    tables: list[str],
    ratios: str,
    output: Path,
    *,
    drawn: bool,
) -> str:
    target = comparison.target
    comparator = ">=" if target.mode == "max" else "<="
    data = sorted({r.data for r in results.values() if r.data})
    window = f", mean of {target.window} consecutive evaluations" if target.window > 1 else ""
    parts = [
        f"# {comparison.title}\n",
        f"* Data: {'; '.join(data) or 'no run has finished'}",
        f"* Recipe: {', '.join(str(p) for p in comparison.recipe_paths)}",
        f"* Target: {target.metric} {comparator} {target.value:g}{window}, evaluated every "
        f"{comparison.evaluate_every:g} units of logical time; budget {comparison.budget:g}",
        f"* Seeds: {_listed(comparison.seeds)}{_tuning(comparison)}",
        "* Workers, the same times for every method:\n",
        _yaml(comparison.cluster),
        *(
            f"* Workers of the panel {panel.name}:\n\n{_yaml(panel.methods[0].cluster)}"
            for panel in comparison.panels
            if panel.methods[0].cluster != comparison.cluster
        ),
        _curves(comparison) if drawn else "",
        "## Results\n",
        *tables,
        "Mean and standard error over seeds. Speed-ups are means of ratios paired by seed. A run that did not reach "
        "the target within the budget is censored there: it makes the mean a bound (`>`, `<`); none is left out.\n",
        f"## Ratios\n\n{ratios}" if ratios else "",
        *(_grids(comparison, panel, results) for panel in comparison.panels),
        _failures(comparison, results),
        "## Rerun\n",
        _code(f"lightning-async compare {comparison.path} --output {output}", "bash"),
        "Finished runs are skipped; every run's own configuration is in `runs/<key>/config.yaml`, and `results.csv` "
        "has one row per run.\n",
        f"Versions: {_versions(results)}. Training took {_hours(results)} of wall time in all.",
    ]
    return "\n".join(part for part in parts if part) + "\n"


def _curves(comparison: Comparison) -> str:
    figures = [f"![Curves against {axis.unit}]({figure_name(axis)}.png)\n" for axis in (LOGICAL_TIME, *comparison.axes)]
    explanation = (
        "Lines are means over seeds, bands one standard error of the mean to either side. Where some seeds have ended, "
        "at the target or since they diverged, thin lines show the others one by one.\n"
    )
    return "\n".join([*figures, explanation])


def _listed(values: tuple[int, ...]) -> str:
    return ", ".join(map(str, values))


def _tuning(comparison: Comparison) -> str:
    if not any(len(list(entry.grid)) for panel in comparison.panels for entry in panel.methods):
        return ""
    shared = set(comparison.seeds) & set(comparison.tuning_seeds)
    warning = " (some are also reported, which favours whoever has the larger grid)" if shared else ""
    return f"; grids searched on seed(s) {_listed(comparison.tuning_seeds)}{warning}"


def _code(text: str, language: str) -> str:
    return f"```{language}\n{text.rstrip()}\n```\n"


def _yaml(content: Config) -> str:
    return _code(str(yaml.safe_dump(content, sort_keys=False)), "yaml")


def _grids(comparison: Comparison, panel: Panel, results: Mapping[str, RunResult]) -> str:
    searched = [entry for entry in panel.methods if tuning_outcomes(comparison, entry, results)]
    if not searched:
        return ""
    tables = [_grid_table(comparison, entry, results) for entry in searched]
    return f"## Grid search: {panel.title or panel.name}\n\n" + "\n".join(tables)


def _grid_table(comparison: Comparison, entry: MethodEntry, results: Mapping[str, RunResult]) -> str:
    rows = []
    for point, outcomes in tuning_outcomes(comparison, entry, results).items():
        time = mean_time(outcomes)
        arrived = sum(o.arrived is not None for o in outcomes)
        sign = "> " if time.bound == ">" else ""
        rows.append(
            [
                ", ".join(f"{key.rsplit('.', 1)[-1]} {format_power(value)}" for key, value in point),
                f"{sign}{time.mean:.4g}" if time.count else "-",
                f"{arrived} of {len(comparison.tuning_seeds)}",
                str(sum(o.status == "diverged" for o in outcomes)),
            ]
        )
    return markdown_table([entry.label, "Mean time to target", "Reached", "Diverged"], rows)


def _failures(comparison: Comparison, results: Mapping[str, RunResult]) -> str:
    names = run_names(comparison, results)
    lines = []
    for key, name in names.items():
        if key not in results:
            lines.append(f"* {name}: not run")
        elif results[key].status == "diverged":
            lines.append(f"* {name}: diverged at logical time {results[key].end_time:.4g}")
        elif results[key].status == "failed":
            lines.append(f"* {name}: failed, {_last_line(results[key])} (`runs/{key}/log.txt`)")
    return "## Runs that diverged, failed or are missing\n\n" + "\n".join(lines) + "\n" if lines else ""


def _print_failures(console: Console, comparison: Comparison, results: Mapping[str, RunResult]) -> None:
    names = run_names(comparison, results)
    for key, result in results.items():
        if result.status == "failed":
            message = f"{names.get(key, key)} failed: {_last_line(result)}"
            console.print(message, style="red", markup=False, soft_wrap=True)


def _last_line(result: RunResult) -> str:
    return result.error.strip().rsplit("\n", 1)[-1]


def _versions(results: Mapping[str, RunResult]) -> str:
    found = sorted({f"{name} {v}" for r in results.values() for name, v in r.versions.items()})
    return ", ".join(found) or "unknown"


def _hours(results: Mapping[str, RunResult]) -> str:
    seconds = sum(r.wall_seconds for r in results.values())
    return f"{seconds / 3600:.1f} hours" if seconds > 5400 else f"{seconds / 60:.1f} minutes"
