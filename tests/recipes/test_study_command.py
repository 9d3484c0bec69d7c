"""The command line that studies share."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path

import pytest

from recipes.studies import read_command


@dataclass(frozen=True)
class Small:
    numbers: tuple[int, ...] = (1, 2)
    factor: float = 1.0

    def __post_init__(self) -> None:
        if self.factor <= 0:
            raise ValueError(f"factor must be above 0, got {self.factor:g}")


def test_the_command_in_a_report_can_be_given_to_a_shell_again(tmp_path: Path) -> None:
    words = ["--study.numbers", "[3, 4]", f"--output={tmp_path / 'a folder'}", "--jobs=2"]
    command = read_command("small", "A study.", Small, words)
    assert command.study == Small((3, 4))
    assert (command.output, command.jobs) == (tmp_path / "a folder", 2)
    assert shlex.split(command.text) == ["python", "-m", "recipes.small", *words]


def test_what_a_study_refuses_is_an_error_of_the_command_line(tmp_path: Path, capsys) -> None:
    with pytest.raises(SystemExit):
        read_command("small", "A study.", Small, ["--study.factor=-1", f"--output={tmp_path / 'made'}"])
    assert "factor must be above 0, got -1" in capsys.readouterr().err
    assert not (tmp_path / "made").exists()


def test_results_go_to_a_folder_of_the_name_of_the_configuration(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.yaml").write_text("study: {factor: 2}")
    command = read_command("small", "A study.", Small, ["--config=mine.yaml"], config="default")
    assert command.study == Small(factor=2.0)
    assert command.output == Path("outputs/small/mine")
