"""Which checkpoint of an interrupted run is gone on from."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch

from lightning_async.cli.compare.execution import usable_checkpoint

PARTS = ("pytorch-lightning_version", "state_dict", "optimizer_states", "lr_schedulers", "loops", "callbacks")
WHOLE: dict[str, Any] = dict.fromkeys(PARTS)


@dataclass
class Settings:
    """A hyper-parameter of a class that nobody but its module knows."""

    width: int


def test_there_is_none_before_the_first() -> None:
    assert usable_checkpoint(Path("no such folder")) == (None, True)


def test_tensors_alone_are_loaded_as_such(tmp_path: Path) -> None:
    torch.save({**WHOLE, "state_dict": {"weight": torch.ones(2)}}, tmp_path / "resume.ckpt")
    assert usable_checkpoint(tmp_path) == (tmp_path / "resume.ckpt", True)


def test_hyperparameters_of_any_class_are_loaded(tmp_path: Path) -> None:
    torch.save({**WHOLE, "hyper_parameters": {"settings": Settings(3)}}, tmp_path / "resume.ckpt")
    path, weights_only = usable_checkpoint(tmp_path)
    assert path is not None
    assert torch.load(path, weights_only=weights_only)["hyper_parameters"] == {"settings": Settings(3)}


@pytest.mark.parametrize("content", [{}, [1], *({part: None for part in PARTS if part != absent} for absent in PARTS)])
def test_what_can_be_read_but_is_no_checkpoint_is_removed_and_that_is_said(
    tmp_path: Path, content: object, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "resume.ckpt"
    torch.save(content, path)
    assert usable_checkpoint(tmp_path) == (None, True)
    assert not path.exists()
    assert "it is no checkpoint of a run, for it has no" in capsys.readouterr().out


@pytest.mark.parametrize("kept", [0, 10, 0.5, 0.99])
def test_half_a_checkpoint_is_removed_and_that_is_said(
    tmp_path: Path, kept: float, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "resume.ckpt"
    torch.save({**WHOLE, "state_dict": {"weight": torch.ones(10_000)}}, path)
    whole = path.read_bytes()
    path.write_bytes(whole[: int(kept * len(whole)) if kept < 1 else int(kept)])
    assert usable_checkpoint(tmp_path) == (None, True)
    assert not path.exists()
    assert f"{path} cannot be read" in capsys.readouterr().out
