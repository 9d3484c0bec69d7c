"""What the figures of a comparison show."""

from collections.abc import Callable
from pathlib import Path

import pytest
from matplotlib.figure import Figure

from lightning_async.cli.compare.figures import write_figure
from lightning_async.cli.compare.plan import known_runs
from lightning_async.cli.compare.reading import load_comparison
from lightning_async.cli.compare.results import RunResult


def test_the_target_is_named_where_it_hides_no_curve(
    tmp_path: Path, write_comparison: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    comparison = load_comparison(write_comparison(tmp_path))
    run = RunResult("finished", times=[0.0, 1.0, 20.0], steps=[0, 1, 2], train_loss=[1.0] * 3)
    run.metrics = {"val/loss": [0.9, 0.1, 0.1]}
    drawn: list[Figure] = []
    monkeypatch.setattr(Figure, "savefig", lambda figure, *_, **__: drawn.append(figure))
    write_figure(comparison, dict.fromkeys(known_runs(comparison, {}), run), tmp_path)
    figure = drawn[0]
    assert not any(axes.texts for axes in figure.axes)
    (legend,) = figure.legends
    assert "target 0.5" in [text.get_text() for text in legend.get_texts()]
