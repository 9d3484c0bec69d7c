"""A comparison's table for the terminal, for Markdown and for LaTeX."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import replace

from rich.markup import escape
from rich.table import Table

from lightning_async.cli.compare.axes import scale
from lightning_async.cli.compare.measures import Estimate
from lightning_async.cli.compare.schema import Axis, Target
from lightning_async.cli.compare.summary import Line

_LATEX = {
    "\\": r"\textbackslash{}",
    "_": r"\_",
    "%": r"\%",
    "&": r"\&",
    "#": r"\#",
    "$": r"\$",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "±": r"$\pm$",
    ">": "$>$",
    "<": "$<$",
}


def table_cells(lines: Sequence[Line], target: Target) -> tuple[list[str], list[list[str]]]:
    """Returns header and cells of a panel's table.

    Spreads are standard errors over seeds. Runs that did not arrive stay in: the mean is then a lower bound, written
    with `>`, followed by how many arrived.
    """
    searched = list(dict.fromkeys(name for line in lines for name in line.settings))
    reference = lines[0].entry.label if lines else ""
    header = [
        "Method",
        "Step size",
        *searched,
        "Time to target",
        f"Speed-up over {reference}",
        f"Final {target.metric}",
    ]
    rows = [
        [
            line.entry.label,
            "-" if line.step is None else format_power(line.step) + ("*" if "lr" in line.at_edge else ""),
            *(_setting(line, name) for name in searched),
            _time_cell(line),
            _speed_cell(line),
            _with_error(line.final, digits=4),
        ]
        for line in lines
    ]
    return header, rows


def axis_cells(lines: Sequence[Line], axis: Axis, in_time: Sequence[Line]) -> tuple[list[str], list[list[str]]]:
    """Returns header and cells of a panel's table in another unit than logical time.

    Args:
        lines: The lines, measured on that axis.
        axis: The axis.
        in_time: The same lines in logical time, which every run reports.
    """
    unit, power = scale(line.time.mean for line in lines)
    reference = lines[0].entry.label if lines else ""
    header = ["Method", f"{power}{axis.unit} to target", f"Saving over {reference}"]
    missing = ["not reported" if line.outcomes else "not run" for line in in_time]
    return header, [
        [line.entry.label, _time_cell(line, unit, word), _speed_cell(line) if line.outcomes else "-"]
        for line, word in zip(lines, missing, strict=True)
    ]


def _setting(line: Line, name: str) -> str:
    if name not in line.settings:
        return "-"
    return f"{line.settings[name]:g}" + ("*" if name in line.at_edge else "")


def format_power(value: float) -> str:
    """Writes an exact power of two as such.

    Example:
        >>> format_power(0.03125), format_power(0.1)
        ('2^-5', '0.1')
    """
    mantissa, exponent = math.frexp(value)
    if value > 0 and mantissa == 0.5 and not 1 <= value <= 16:
        return f"2^{exponent - 1}"
    return f"{value:g}"


def format_number(value: float, digits: int = 3) -> str:
    """Writes a number with so many significant digits, and never less than its whole part.

    Example:
        >>> format_number(1.3206), format_number(0.94), format_number(1234.5)
        ('1.32', '0.940', '1234')
    """
    if value and math.isfinite(value):
        decimals = max(0, digits - 1 - math.floor(math.log10(abs(value))))
        return f"{value:.{decimals}f}"
    return f"{value:g}"


def _with_error(estimate: Estimate, digits: int = 3) -> str:
    if not estimate.count:
        return "-"
    text = format_number(estimate.mean, digits)
    if not math.isfinite(estimate.error):
        return text
    decimals = len(text.partition(".")[2])
    return f"{text} ± {estimate.error:.{decimals}f}"


def _time_cell(line: Line, unit: float = 1.0, missing: str = "not run") -> str:
    if not line.outcomes:
        return missing
    time = replace(line.time, mean=line.time.mean / unit, error=line.time.error / unit)
    total = len(line.runs)
    notes = [
        f"{count} {word}"
        for word, count in (
            ("diverged", line.count("diverged")),
            ("failed", line.count("failed")),
            ("not run", total - len(line.outcomes)),
        )
        if count
    ]
    if time.bound == "=" and not notes:
        return _with_error(time)
    reached = ", ".join([f"{line.arrived} of {total} reached", *notes])
    if time.bound == "=" and time.count:
        return f"{_with_error(time)} ({reached})"
    return f"> {format_number(time.mean)} ({reached})" if time.count else f"- ({reached})"


def _speed_cell(line: Line) -> str:
    if line.speed is None:
        return "1"
    if line.speed.bound == "?":
        return "undetermined"
    pairs = "" if line.speed.count == len(line.runs) else f" ({line.speed.count} of {len(line.runs)} pairs)"
    if line.speed.bound == "=":
        return _with_error(line.speed) + pairs
    return f"{line.speed.bound} {format_number(line.speed.mean)}{pairs}"


def markdown_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Returns a Markdown table, the first column to the left and the others to the right."""
    lines = [header, ["---", *["---:"] * (len(header) - 1)], *rows]
    return "\n".join("| " + " | ".join(_markdown(cell) for cell in line) + " |" for line in lines) + "\n"


def _markdown(text: str) -> str:
    return text if set(text) <= set("-:") else text.replace("|", r"\|").replace("*", r"\*").replace("<", r"\<")


def latex_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Returns a LaTeX tabular for the booktabs package."""
    lines = [
        rf"\begin{{tabular}}{{l{'r' * (len(header) - 1)}}}",
        r"\toprule",
        " & ".join(map(latex, header)) + r" \\",
        r"\midrule",
        *(" & ".join(map(latex, row)) + r" \\" for row in rows),
        r"\bottomrule",
        r"\end{tabular}",
    ]
    return "\n".join(lines) + "\n"


def latex(text: str) -> str:
    r"""Returns text as LaTeX: special characters escaped, powers in math mode.

    Example:
        >>> latex("clipped_asgd 2^-4")
        'clipped\\_asgd $2^{-4}$'
    """
    pieces = re.split(r"(\d+\^-?\d+)", text)
    power = re.compile(r"(\d+)\^(-?\d+)")
    return "".join(
        power.sub(r"$\1^{\2}$", piece) if i % 2 else "".join(_LATEX.get(c, c) for c in piece)
        for i, piece in enumerate(pieces)
    )


def rich_table(title: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    """Returns the table for the terminal."""
    table = Table(title=escape(title), title_justify="left")
    for column, name in enumerate(header):
        table.add_column(escape(name), justify="right" if column else "left")
    for row in rows:
        table.add_row(*map(escape, row))
    return table
