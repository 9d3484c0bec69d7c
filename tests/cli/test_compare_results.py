import json
import math
from pathlib import Path
from typing import Any

import pytest

from lightning_async.cli.compare.configuration import ComparisonError
from lightning_async.cli.compare.results import ResultFolder, RunResult, Status, write_atomically


def result() -> RunResult:
    return RunResult("finished", [1.0, 2.0], [3, 6], [0.1, math.nan], {"val/loss": [0.5, math.inf]}, data="d")


def test_a_result_survives_the_file_with_infinities_as_nan(tmp_path: Path) -> None:
    folder = ResultFolder(tmp_path)
    folder.write("k", result())
    read = folder.read("k")
    assert read is not None
    assert (read.times, read.steps, read.data) == ([1.0, 2.0], [3, 6], "d")
    assert math.isnan(read.metrics["val/loss"][1])
    json.loads((tmp_path / "runs/k/result.json").read_text(), parse_constant=lambda _: pytest.fail("not plain JSON"))


@pytest.mark.parametrize("keep", [0, 1, 40, -1])
def test_a_file_that_was_cut_off_is_not_a_result(tmp_path: Path, keep: int) -> None:
    folder = ResultFolder(tmp_path)
    folder.write("k", result())
    path = tmp_path / "runs/k/result.json"
    path.write_text(path.read_text()[:keep])
    assert folder.read("k") is None


def test_a_crash_while_writing_leaves_the_old_content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    write_atomically(path, "old")
    monkeypatch.setattr("os.fsync", lambda _: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        write_atomically(path, "new")
    assert path.read_text() == "old"


def claim(folder: Path, name: str, identity: dict[str, Any], extend: bool = False) -> None:
    with ResultFolder(folder).claim(name, identity, extend=extend):
        pass


def test_a_folder_may_be_claimed_twice_by_the_same_comparison(tmp_path: Path) -> None:
    claim(tmp_path / "out", "mine", {"budget": 1})
    claim(tmp_path / "out", "mine", {"budget": 1})


@pytest.mark.parametrize("extend", [False, True])
def test_a_folder_of_another_comparison_is_refused_with_the_difference(tmp_path: Path, extend: bool) -> None:
    claim(tmp_path, "theirs", {"budget": 1, "seeds": [0]})
    with pytest.raises(ComparisonError, match=r"belongs to another comparison: 'theirs'.*differ in budget.*--output"):
        claim(tmp_path, "mine", {"budget": 2, "seeds": [0]}, extend)


@pytest.mark.parametrize("left", [None, RunResult("failed", error="no luck today")])
def test_a_comparison_of_which_nothing_finished_may_be_corrected(tmp_path: Path, left: RunResult | None) -> None:
    claim(tmp_path, "mine", {"lr": -1})
    if left is None:
        (tmp_path / "runs" / "interrupted").mkdir(parents=True)
    else:
        ResultFolder(tmp_path).write("failed", left)
    claim(tmp_path, "mine", {"lr": 1})
    with pytest.raises(ComparisonError, match="belongs to another comparison: 'mine'"):
        claim(tmp_path, "other", {"lr": 2})


@pytest.mark.parametrize(
    "content",
    [
        *('{"metrics": []}', '{"metrics": {"val/loss": []}}', '{"steps": []}', "{}", "[]"),
        *('{"status": "finishd"}', '{"times": [null]}', '{"times": ["a"]}', '{"steps": ["x"]}', '{"end_time": null}'),
        *('{"metrics": {"val/loss": ["x"]}}', '{"versions": null}', '{"data": 1}'),
        *('{"train_loss": []}', '{"counters": {"bits_sent": []}}'),
        *(f'{{"{key}": 1{"0" * 400}}}' for key in ("end_time", "wall_seconds")),
    ],
)
def test_a_result_that_is_not_whole_is_run_again(tmp_path: Path, content: str) -> None:
    folder = ResultFolder(tmp_path)
    folder.write("k", RunResult("finished", [1.0], [2], [0.7], {"val/loss": [0.5]}))
    path = tmp_path / "runs/k/result.json"
    damage = json.loads(content)
    assert folder.read("k") is not None
    path.write_text(json.dumps({**json.loads(path.read_text()), **damage} if damage else damage))
    assert folder.read("k") is None


def test_a_file_that_is_nested_deeply_is_not_a_result(tmp_path: Path) -> None:
    write_atomically(tmp_path / "runs/k/result.json", "[" * 100_000)
    assert ResultFolder(tmp_path).read("k") is None


@pytest.mark.parametrize(("status", "counts"), [("finished", False), ("diverged", False), ("failed", True)])
def test_a_result_without_a_watched_metric_counts_only_if_it_failed(
    tmp_path: Path, status: Status, counts: bool
) -> None:
    folder = ResultFolder(tmp_path)
    folder.write("k", RunResult(status, [1.0], [2], [0.7], {"val/loss": [0.5]}))
    assert folder.read("k", ["val/loss"]) is not None
    assert (folder.read("k", ["val/acc", "val/loss"]) is not None) == counts


def test_a_changed_comparison_of_the_same_name_needs_extend(tmp_path: Path) -> None:
    claim(tmp_path, "mine", {"seeds": [0]})
    ResultFolder(tmp_path).write("k", result())
    with pytest.raises(ComparisonError, match="--extend"):
        claim(tmp_path, "mine", {"seeds": [0, 1]})
    claim(tmp_path, "mine", {"seeds": [0, 1]}, extend=True)
    claim(tmp_path, "mine", {"seeds": [0, 1]})


def test_a_folder_with_other_files_is_refused(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").touch()
    with pytest.raises(ComparisonError, match="not a comparison's"):
        claim(tmp_path, "mine", {})


def test_two_processes_in_one_folder_are_refused_and_the_second_changes_nothing(tmp_path: Path) -> None:
    with ResultFolder(tmp_path).claim("mine", {"seeds": [0]}):
        before = (tmp_path / "comparison.json").read_text()
        with pytest.raises(ComparisonError, match="another process is running"):
            claim(tmp_path, "mine", {"seeds": [0, 1]}, extend=True)
        assert (tmp_path / "comparison.json").read_text() == before
