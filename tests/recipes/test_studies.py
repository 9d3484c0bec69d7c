"""What the studies have in common: checks, folders, and processes that end with the one that started them."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from jsonargparse import ArgumentParser

from recipes.studies import check_numbers, check_seeds, folder, jobs

ROOT = Path(__file__).parents[2]


def alive(process: int) -> bool:
    """Whether a process runs; one that has ended and was not yet asked for its status does not."""
    try:
        status = Path(f"/proc/{process}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):  # the latter if it ends between opening and reading
        return False
    return status.rpartition(")")[2].split()[0] not in "ZX"


def _heed_ctrl_c() -> None:
    """In a child of a shell's background job, which would ignore it."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.mark.skipif(not Path("/proc/self/stat").is_file(), reason="looks for processes in /proc")
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT], ids=["kill", "ctrl_c"])
def test_workers_end_with_their_parent_and_finished_runs_are_kept(tmp_path: Path, how: signal.Signals) -> None:
    command = [sys.executable, "-m", "tests.recipes.hanging_study", str(tmp_path)]
    result, log = tmp_path / "runs" / "run-0.json", tmp_path / "log"
    with log.open("w") as file:
        study = subprocess.Popen(command, cwd=ROOT, stdout=file, stderr=file, preexec_fn=_heed_ctrl_c)
    try:
        deadline = time.monotonic() + 180
        while not (result.exists() and len(list(tmp_path.glob("process-*"))) == 2):
            assert study.poll() is None, log.read_text()
            assert time.monotonic() < deadline, "the runs did not begin"
            time.sleep(0.05)
        workers = [int(path.name.removeprefix("process-")) for path in tmp_path.glob("process-*")]
        assert all(map(alive, workers))
        study.send_signal(how)
        assert study.wait(timeout=50) == (130 if how is signal.SIGINT else -signal.SIGKILL)
    finally:
        study.kill()
        study.wait()
    deadline = time.monotonic() + 50
    while any(map(alive, workers)):
        assert time.monotonic() < deadline, "a worker went on"
        time.sleep(0.05)
    assert [path.name for path in (tmp_path / "runs").iterdir()] == ["run-0.json"]
    if how is signal.SIGINT:
        assert "Finished runs are kept in" in log.read_text()
        assert "Traceback" not in log.read_text()


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
