"""Tables and report of the study."""

from __future__ import annotations

import itertools
import math
from pathlib import Path

import numpy as np

from lightning_async.cli.compare.results import write_atomically
from lightning_async.cli.compare.tables import markdown_table
from recipes.heavy_tails.figures import draw_delays, draw_tails
from recipes.heavy_tails.settings import LABELS, METHODS, Study
from recipes.heavy_tails.summary import (
    Interval,
    Measure,
    Read,
    Setting,
    final_norms,
    growth,
    medians,
    over_seeds,
    quantile,
    share,
    updates_over_slowdowns,
)

__all__ = ["write_report"]

_MEASURES: dict[Measure, str] = {
    "settled": "Updates after which the gradient norm stays at most eps, to the end of the run",
    "first": "Updates until the gradient norm is first at most eps",
    "mean": "Updates until the mean gradient norm of all iterates so far is at most eps",
}

_LAWS = {
    "symmetric": "noise of uniformly random direction whose norm has the tail exp(-(y/r)^(1/theta))",
    "skewed": "noise r (E^theta - mean) along (1, ..., 1), E exponential: of mean zero, but not symmetric",
}


def write_report(study: Study, results: Read, output: Path, command: str) -> None:
    """Write the figures (PNG, PDF) and ``report.md``."""
    output.mkdir(parents=True, exist_ok=True)
    draw_delays(study, results, output)
    draw_tails(study, results, output)
    write_atomically(output / "report.md", _page(study, results, command))


def _page(study: Study, results: Read, command: str) -> str:
    slow = max(study.slowdowns)
    sections = [
        f"### {title}; noise {noise:g}, step {study.shown_step:g}\n\n{_delay_table(study, noise, measure, results)}"
        for noise, (measure, title) in itertools.product(study.noises, _MEASURES.items())
    ]
    growths = "\n".join(f"### Noise {noise:g}\n\n{_growth_table(study, noise, results)}" for noise in study.noises)
    tails = "\n".join(f"### Noise {noise:g}\n\n{_tail_table(study, noise, slow, results)}" for noise in study.noises)
    return f"""# Clipped and vanilla ASGD under noise of known tail

* {study.workers} workers, half of them D times slower; K = {study.updates:,} updates; {study.seeds} seeds
* d = {study.dimension}, smoothness 1, every coordinate of x_0 is {study.start:g}; clipping radius {study.clip:g}
* {_LAWS[study.law]}, of the stated root mean square
* eps = {study.eps:g}

Brackets are 95 % intervals over seeds: bootstrap, which resamples a seed for all D at once, or Wilson's for shares. An
entry is infinite where more than half of the seeds never get there.

![Updates against D](delays.png)

![Gradient norm of the last iterate](tails.png)

## How many updates, against D

{chr(10).join(sections)}
## Growth from D = {min(study.slowdowns):g} to D = {slow:g}, all steps

Ratio of the medians of the first table's measure.

{growths}
## Gradient norm of the last iterate, D = {slow:g}, step {study.shown_step:g}

{tails}
## Rerun

```bash
{command}
```

Finished settings are kept in `runs/` and skipped.
"""


def _settings(study: Study, noise: float, step: float) -> list[Setting]:
    axes = itertools.product(study.objectives, study.thetas, METHODS)
    return [Setting(objective, theta, noise, method, step) for objective, theta, method in axes]


def _delay_table(study: Study, noise: float, measure: Measure, results: Read) -> str:
    header = ["objective", "theta", "method", *(f"D = {d:g}" for d in study.slowdowns), "growth"]
    rows = []
    for setting in _settings(study, noise, study.shown_step):
        samples = updates_over_slowdowns(study, setting, measure, results)
        rows.append([*_names(setting), *map(_counted, medians(samples)), _ratio(growth(samples))])
    return markdown_table(header, rows)


def _growth_table(study: Study, noise: float, results: Read) -> str:
    rows = []
    for setting in _settings(study, noise, study.shown_step):
        cells = []
        for step in study.steps:
            at = Setting(setting.objective, setting.theta, noise, setting.method, step)
            cells.append(_ratio(growth(updates_over_slowdowns(study, at, "settled", results))))
        rows.append([*_names(setting), *cells])
    return markdown_table(["objective", "theta", "method", *(f"step {step:g}" for step in study.steps)], rows)


def _tail_table(study: Study, noise: float, slowdown: float, results: Read) -> str:
    probabilities = (0.5, 0.9, 0.99)
    header = ["objective", "theta", "method", *(f"{100 * p:g} %" for p in probabilities), "largest", "99 % / 50 %"]
    rows = []
    for setting in _settings(study, noise, study.shown_step):
        norms = final_norms(study, setting, slowdown, results)
        estimates = over_seeds(norms, lambda x: np.array([quantile(x, p) for p in probabilities]))
        ratio = over_seeds(norms, lambda x: quantile(x, 0.99) / quantile(x, 0.5))[0]
        settled = updates_over_slowdowns(study, setting, "settled", results)[study.slowdowns.index(slowdown)]
        rows.append(
            [
                *_names(setting),
                *map(_small, estimates),
                f"{norms.max():.3g}",
                _small(ratio),
                _percent(share(norms > study.eps)),
                _percent(share(settled > study.updates / 2)),
            ]
        )
    return markdown_table([*header, "above eps at the end", f"above eps after {study.updates // 2:,} updates"], rows)


def _names(setting: Setting) -> list[str]:
    return [LABELS[setting.objective], f"{setting.theta:g}", LABELS[setting.method]]


def _counted(estimate: Interval) -> str:
    if math.isinf(estimate.value):
        return "inf"
    return f"{estimate.value:,.0f} [{estimate.low:,.0f}, {estimate.high:,.0f}]"


def _ratio(estimate: Interval) -> str:
    if not math.isfinite(estimate.value):
        return "-"
    return f"{estimate.value:.2f} [{estimate.low:.2f}, {estimate.high:.2f}]"


def _small(estimate: Interval) -> str:
    return f"{estimate.value:.3g} [{estimate.low:.3g}, {estimate.high:.3g}]"


def _percent(estimate: Interval) -> str:
    return f"{100 * estimate.value:.3g} % [{100 * estimate.low:.1f}, {100 * estimate.high:.1f}]"
