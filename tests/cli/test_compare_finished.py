"""A comparison that ran through: its results, tables and figures, and what it does when it is started again."""

import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from lightning_async.cli.main import main
from tests.cli.stored import results, rows

Write = Callable[..., Path]
pytestmark = pytest.mark.xdist_group("finished comparison")  # it is run once, by the process that looks at it
GRID = {
    "asgd": {"label": "ASGD_vanilla", "grid": {"optimizer.init_args.lr": ["2^-6", "2^-4"]}},
    "minibatch_sgd": {"label": "Mini-batch", "overrides": {"optimizer.init_args.lr": "2^-12"}},
}


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory, write_comparison: Write) -> tuple[Path, Path]:
    """A comparison with a grid that ran through, and its folder."""
    folder = tmp_path_factory.mktemp("finished")
    comparison = write_comparison(folder, methods=GRID)
    sys.path.insert(0, str(Path(__file__).parent))
    try:
        assert main(["compare", str(comparison), "--output", str(folder / "out"), "--jobs", "2"]) == 0
    finally:
        sys.path.pop(0)
    return comparison, folder / "out"


def test_every_grid_point_and_every_reported_seed_is_run(finished: tuple[Path, Path]) -> None:
    kinds = [(row["method"], row["kind"], row["step_size"], row["seed"]) for row in rows(finished[1])]
    assert kinds == [
        ("asgd", "tuning", "0.015625", "5"),
        ("asgd", "tuning", "0.0625", "5"),
        ("asgd", "reported", "0.0625", "0"),
        ("asgd", "reported", "0.0625", "1"),
        ("minibatch_sgd", "reported", "0.000244140625", "0"),
        ("minibatch_sgd", "reported", "0.000244140625", "1"),
    ]


def test_evaluations_are_on_the_grid_of_logical_time_up_to_the_budget(finished: tuple[Path, Path]) -> None:
    # Mini-batch steps end at 2, 4, ..., 20: every iterate is evaluated once, the initial one included.
    keys = [row["run"] for row in rows(finished[1]) if row["method"] == "minibatch_sgd"]
    for key in keys:
        assert results(finished[1])[key]["times"] == list(range(0, 21, 2))


def test_a_censored_method_is_shown_as_a_bound_with_its_count(finished: tuple[Path, Path]) -> None:
    for file in ("table.md", "report.md"):
        assert "> 20.0 (0 of 2 reached)" in (finished[1] / file).read_text()
    assert r"$>$ 20.0 (0 of 2 reached)" in (finished[1] / "table.tex").read_text()
    assert [row["time_to_target"] for row in rows(finished[1]) if row["method"] == "minibatch_sgd"] == ["", ""]


def test_the_markdown_table_is_rectangular(finished: tuple[Path, Path]) -> None:
    lines = [line for line in (finished[1] / "table.md").read_text().splitlines() if line.startswith("|")]
    assert len(lines) == 4
    assert len({line.replace(r"\|", "").count("|") for line in lines}) == 1


def test_the_latex_table_can_be_pasted(finished: tuple[Path, Path]) -> None:
    text = (finished[1] / "table.tex").read_text()
    assert text.count(r"\begin{tabular}") == text.count(r"\end{tabular}") == 1
    assert r"ASGD\_vanilla" in text
    assert "$2^{-4}$" in text
    body = text.split(r"\toprule")[1].split(r"\bottomrule")[0]
    assert {line.count(" & ") for line in body.splitlines() if line.endswith(r"\\")} == {4}
    assert "±" not in text


def test_the_report_names_data_versions_and_how_to_rerun(finished: tuple[Path, Path]) -> None:
    text = (finished[1] / "report.md").read_text()
    assert "tiny random regression" in text
    assert f"lightning-async compare {finished[0]} --output {finished[1]}" in text
    assert "torch 2" in text


def test_the_report_holds_the_ratios_that_are_in_a_file_of_their_own(finished: tuple[Path, Path]) -> None:
    ratios = (finished[1] / "ratios.md").read_text()
    assert ratios
    assert f"## Ratios\n\n{ratios}" in (finished[1] / "report.md").read_text()


@pytest.mark.parametrize(("name", "magic"), [("curves.png", b"\x89PNG"), ("curves.pdf", b"%PDF")])
def test_curves_are_drawn(finished: tuple[Path, Path], name: str, magic: bytes) -> None:
    assert (finished[1] / name).read_bytes().startswith(magic)


def test_finished_runs_are_not_repeated(finished: tuple[Path, Path]) -> None:
    before = {path: path.stat().st_mtime_ns for path in finished[1].glob("runs/*/result.json")}
    assert main(["compare", str(finished[0]), "--output", str(finished[1])]) == 0
    assert {path: path.stat().st_mtime_ns for path in finished[1].glob("runs/*/result.json")} == before


@pytest.mark.parametrize("damage", [lambda text: text[:100], lambda text: text.replace('"val/loss"', '"val/lost"')])
def test_a_result_with_something_missing_is_run_again(
    finished: tuple[Path, Path], tmp_path: Path, damage: Callable[[str], str]
) -> None:
    shutil.copytree(finished[1], tmp_path / "out")
    damaged = min((tmp_path / "out").glob("runs/*/result.json"))
    damaged.write_text(damage(damaged.read_text()))
    assert main(["compare", str(finished[0]), "--output", str(tmp_path / "out")]) == 0
    assert results(tmp_path / "out") == results(finished[1])


def test_another_comparison_in_the_same_folder_is_refused_before_anything_runs(
    finished: tuple[Path, Path], tmp_path: Path, write_comparison: Write, capsys: pytest.CaptureFixture[str]
) -> None:
    other = write_comparison(tmp_path, name="other", budget=10)
    before = results(finished[1])
    assert main(["compare", str(other), "--output", str(finished[1])]) == 2
    assert "belongs to another comparison: 'mine'" in capsys.readouterr().err
    assert results(finished[1]) == before


def test_a_grid_that_decides_nothing_is_reported(
    tmp_path: Path, write_comparison: Write, capsys: pytest.CaptureFixture[str]
) -> None:
    methods = {"asgd": {"label": "ASGD"}, "clipped_asgd": {"label": "Clipped", "grid": {"method.clip": [1e6, 1e7]}}}
    comparison = write_comparison(tmp_path, methods=methods, seeds=[0], budget=5)
    assert main(["compare", str(comparison), "--output", str(tmp_path / "out")]) == 0
    note = "The grid of Clipped decides nothing: all of its points came out the same, to the last digit."
    for told in (capsys.readouterr().out, (tmp_path / "out" / "report.md").read_text()):
        assert told.count("decides nothing") == told.count(note) == 1


def test_a_grid_that_decides_is_not_reported(finished: tuple[Path, Path]) -> None:
    assert "decides nothing" not in (finished[1] / "report.md").read_text()
