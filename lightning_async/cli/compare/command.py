"""The command `lightning-async compare`."""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

from lightning_async.cli.compare.axes import check_axes
from lightning_async.cli.compare.changed_code import changed_finished, changed_interrupted, rows_of_runs
from lightning_async.cli.compare.configuration import ComparisonError
from lightning_async.cli.compare.plan import Run, all_methods_ran, comparison_identity, known_runs, run_names
from lightning_async.cli.compare.reading import load_comparison
from lightning_async.cli.compare.results import ResultFolder, RunResult
from lightning_async.cli.compare.schema import Comparison, Wandb
from lightning_async.cli.nearest import nearest

_YEAR = 365 * 24 * 3600.0

DESCRIPTION = """\
Run several methods on one recipe, on the same simulated worker times, and measure the logical time each needs to reach
a target. Finished runs are skipped and interrupted ones resumed: after Ctrl-C, a crash or a power cut, run the same
command again. The folder receives a table, the ratios between all methods (both in Markdown and LaTeX), results.csv,
curves (PNG, PDF) and report.md."""


def make_parser() -> argparse.ArgumentParser:
    """Returns the parser of the command's arguments."""
    parser = argparse.ArgumentParser(
        prog="lightning-async compare", description=DESCRIPTION, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("file", type=Path, help="the comparison, for example configs/compare/demo.yaml")
    parser.add_argument("--jobs", type=_positive_int, default=1, metavar="N", help="runs at a time (default: 1)")
    parser.add_argument("--output", type=Path, metavar="DIR", help="folder (default: outputs/compare/<file name>)")
    parser.add_argument(
        "--only", nargs="+", metavar="NAME", help="run these methods or panels only (names, or panel/method)"
    )
    parser.add_argument(
        "--extend", action="store_true", help="accept a changed comparison of the same name, keep its unchanged runs"
    )
    parser.add_argument(
        "--checkpoint-every",
        type=_positive_seconds,
        default=30.0,
        metavar="SECONDS",
        help="wall time between checkpoints (default: 30)",
    )
    parser.add_argument("--wandb", metavar="PROJECT", help="send the runs to Weights & Biases as one group")
    return parser


def run_compare_command(arguments: list[str]) -> int:
    """Runs `compare`.

    Args:
        arguments: The command line after `compare`.

    Returns:
        The exit status: 0, 1 when a run failed, 2 for a mistake in the comparison, 130 after Ctrl-C.
    """
    options = make_parser().parse_args(arguments)
    try:
        return _compare(options)
    except ComparisonError as error:
        print(f"lightning-async compare: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("\nInterrupted. Run the same command again to continue.", file=sys.stderr)
        return 130


def _compare(options: argparse.Namespace) -> int:
    comparison = load_comparison(options.file)
    if options.wandb:
        comparison = replace(comparison, wandb=_with_project(comparison.wandb, options.wandb))
    only = _checked_names(comparison, options.only)
    output: Path = options.output or Path("outputs") / "compare" / comparison.name
    folder = ResultFolder(output)
    with folder.claim(comparison.name, comparison_identity(comparison), extend=options.extend):
        results = _stored_results(comparison, folder)
        if comparison.wandb:
            _say_unsent(folder, known_runs(comparison, results, only), results)
        missing = {k: r for k, r in known_runs(comparison, results, only).items() if k not in results}
        rows = rows_of_runs(comparison, results)
        changed = changed_finished(output, rows, results)
        for told in (changed, changed_interrupted(output, rows, list(filter(folder.is_interrupted, missing)))):
            if told:
                print(f"lightning-async compare: {told}", file=sys.stderr)
        if missing:
            # Importing Lightning and building every method takes a while.
            what = "configuration of 1 run" if len(missing) == 1 else f"configurations of {len(missing)} runs"
            print(f"{comparison.title}: checking the {what}", flush=True)
            _check_configurations(comparison, missing)
            _train(comparison, results, options, output, only)
        status = _report(comparison, results, output, only, changed)
        if all_methods_ran(comparison, results):
            check_axes(comparison.axes, results.values())
        return status


def _say_unsent(folder: ResultFolder, known: Mapping[str, Run], results: Mapping[str, RunResult]) -> None:
    """Say how many finished runs have no files of Weights & Biases in their folders."""
    unsent = sum(key in results and not (folder.run_folder(key) / "wandb").is_dir() for key in known)
    if unsent:
        print(
            f"{unsent} finished run{'s' * (unsent > 1)} not sent to Weights & Biases, where runs go while they train: "
            "to send all, let the comparison run again in another folder, with --output",
            flush=True,
        )


def _positive_int(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 1000:
        raise argparse.ArgumentTypeError(f"expected an integer of at least 1 (and at most 1000), got {text!r}")
    return int(text)


def _positive_seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value <= _YEAR:
        raise argparse.ArgumentTypeError(f"expected seconds, positive and at most a year, got {text!r}")
    return value


def _with_project(wandb: Wandb | None, project: str) -> Wandb:
    return Wandb(project) if wandb is None else replace(wandb, project=project)


def _checked_names(comparison: Comparison, only: list[str] | None) -> frozenset[str] | None:
    if only is None:
        return None
    known = {p.name for p in comparison.panels}
    for panel in comparison.panels:
        known |= {m.name for m in panel.methods} | {f"{panel.name}/{m.name}" for m in panel.methods}
    for name in only:
        if name not in known:
            raise ComparisonError(f"--only: no method or panel {name!r}; {nearest(name, known)}")
    return frozenset(only)


def _stored_results(comparison: Comparison, folder: ResultFolder) -> dict[str, RunResult]:
    """Reads what is there. Runs that failed are left out, so that they are tried again."""
    results: dict[str, RunResult] = {}
    while True:
        known = known_runs(comparison, results)
        found = {key: folder.read(key, run.watch) for key, run in known.items() if key not in results}
        new = {key: r for key, r in found.items() if r is not None and r.status != "failed"}
        if not new:
            return results
        results.update(new)


def _check_configurations(comparison: Comparison, missing: Mapping[str, Run]) -> None:
    """Builds one run of every method before any of them trains."""
    from lightning_async.cli.compare.checking import check
    from lightning_async.cli.messages import innermost

    names = run_names(comparison, {})
    for key, run in _one_per_method(missing, names).items():
        try:
            check(run)
        except Exception as error:
            raise ComparisonError(
                f"{names[key]}: the configuration is not usable: {innermost(error, run.config)}"
            ) from error


def _one_per_method(runs: Mapping[str, Run], names: Mapping[str, str]) -> dict[str, Run]:
    first: dict[str, str] = {}
    for key in runs:
        if key in names:
            first.setdefault(names[key].rsplit("/", 1)[0], key)
    return {key: runs[key] for key in first.values()}


def _train(
    comparison: Comparison,
    results: dict[str, RunResult],
    options: argparse.Namespace,
    output: Path,
    only: frozenset[str] | None,
) -> None:
    from lightning_async.cli.compare.progress import ProgressDisplay
    from lightning_async.cli.compare.wandb_config import wandb_configs
    from lightning_async.cli.compare.workers import Job, run_all

    def next_jobs(so_far: Mapping[str, RunResult]) -> Mapping[str, Job]:
        names = run_names(comparison, so_far)
        job = partial(Job, output=output, checkpoint_every=options.checkpoint_every, wandb_group=comparison.name)
        wandb = dict.fromkeys(names, comparison.wandb)
        if comparison.wandb is not None:
            configs = wandb_configs(comparison, so_far)
            wandb = {key: replace(comparison.wandb, config=configs[key]) for key in names}
        return {
            key: job(run=run, name=names[key], wandb=wandb[key])
            for key, run in known_runs(comparison, so_far, only).items()
        }

    with ProgressDisplay(comparison, results, only) as display:
        unchecked = bool(comparison.axes)
        for event in run_all(next_jobs, results, output, options.jobs):
            display.show(event, results)
            if unchecked and event.result is not None and all_methods_ran(comparison, results):
                unchecked = False
                check_axes(comparison.axes, results.values())


def _report(
    comparison: Comparison, results: Mapping[str, RunResult], output: Path, only: frozenset[str] | None, changed: str
) -> int:
    from lightning_async.cli.compare.report import write_report

    folder = ResultFolder(output)
    stored = {key: folder.read(key, run.watch) for key, run in known_runs(comparison, results).items()}
    results = {key: result for key, result in {**stored, **results}.items() if result is not None}
    write_report(comparison, results, output, only, changed)
    return 1 if any(r.status == "failed" for r in results.values()) else 0
