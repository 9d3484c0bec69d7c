"""What the studies have in common: checks, folders, and processes that end with the one that started them."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from jsonargparse import ArgumentParser

from recipes.studies import check_numbers, check_seeds, folder, jobs

DRIFT = [sys.executable, "-m", "recipes.local_training", "drift", "--sparsity=[0.5, 1]", "--lr=[0.1]", "--jobs=2"]


def children(parent: int) -> list[int]:
    listed = subprocess.run(["ps", "-e", "-o", "pid=,ppid="], capture_output=True, text=True, check=True).stdout
    pairs = [tuple(map(int, line.split())) for line in listed.splitlines()]
    return [pid for pid, of in pairs if of == parent]


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return not re.search(r"^State:\s+Z", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="looks for processes in /proc")
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT], ids=["kill", "ctrl_c"])
def test_workers_end_with_their_parent_and_finished_cells_are_kept(tmp_path: Path, how: signal.Signals) -> None:
    with (tmp_path / "log").open("w") as log:
        study = subprocess.Popen([*DRIFT, f"--output={tmp_path / 'out'}"], stdout=log, stderr=log)
    began = time.monotonic()
    while not list((tmp_path / "out").glob("runs/*.json")):
        assert study.poll() is None, (tmp_path / "log").read_text()
        assert time.monotonic() < began + 120
        time.sleep(0.05)
    workers = children(study.pid)
    assert len(workers) >= 2
    study.send_signal(how)
    assert study.wait(timeout=20) == (130 if how is signal.SIGINT else -signal.SIGKILL)
    began = time.monotonic()
    while any(map(alive, workers)):
        assert time.monotonic() < began + 20, "a worker went on"
        time.sleep(0.05)
    assert not list((tmp_path / "out").glob("*.csv")), "the study was over before it was stopped"
    if how is signal.SIGINT:
        text = (tmp_path / "log").read_text()
        assert "Finished cells are kept in" in text
        assert "Traceback" not in text


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -1.0, 2.0])
def test_numbers_out_of_range_are_refused_alone_and_among_others(value: float) -> None:
    for given in (value, [0.5, value]):
        with pytest.raises(ValueError, match=r"share must be (finite and )?at least 0 and at most 1, got"):
            check_numbers({"share": given}, least=0, most=1)
    check_numbers({"share": [0.0, 1.0]}, least=0, most=1)


@pytest.mark.parametrize(("seeds", "tuning"), [([-1], []), ([0, 0], []), ([0], [1, 1]), ([0, 1], [1])])
def test_seeds_are_different_and_those_of_tuning_are_others(seeds: list[int], tuning: list[int]) -> None:
    with pytest.raises(ValueError, match="seeds"):
        check_seeds(seeds, tuning)


def test_a_folder_is_made_and_a_file_is_an_error_of_the_command_line(tmp_path: Path, capsys) -> None:
    assert folder(ArgumentParser(), tmp_path / "a" / "b").is_dir()
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(SystemExit):
            folder(ArgumentParser(), path)
        assert "--output must be a folder" in capsys.readouterr().err


def test_no_jobs_at_a_time_are_an_error_of_the_command_line(capsys) -> None:
    with pytest.raises(SystemExit):
        jobs(ArgumentParser(), 0)
    assert "--jobs must be at least 1, got 0" in capsys.readouterr().err
