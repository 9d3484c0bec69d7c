"""Measured durations from a file."""

import math

import numpy as np
import pytest

from lightning_async.simulation import TraceTimes


@pytest.fixture
def write(tmp_path):
    def write_file(text, name="trace.csv"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        return path

    return write_file


def test_cycle_replays_each_workers_rows_in_order_again_and_again(write):
    times = TraceTimes(write("worker,seconds\n1,9\n0,1.5\n0,2.5\n1,7\n0,0.5\n"))
    assert times.durations == ((1.5, 2.5, 0.5), (9.0, 7.0))
    assert [times.duration(0, job) for job in range(7)] == [1.5, 2.5, 0.5, 1.5, 2.5, 0.5, 1.5]
    assert [times.duration(1, job) for job in range(3)] == [9.0, 7.0, 9.0]


def test_random_draws_each_row_equally_often_within_four_standard_errors(write):
    sampler = TraceTimes(write("worker,seconds\n0,1\n0,2\n0,4\n1,8\n"), order="random").sampler(0)
    jobs = 9000
    drawn = np.array([sampler(0, job, 0.0) for job in range(jobs)])
    for seconds in (1.0, 2.0, 4.0):
        assert abs((drawn == seconds).mean() - 1 / 3) < 4 * math.sqrt(2 / 9 / jobs)
    assert {sampler(1, job, 0.0) for job in range(100)} == {8.0}


def test_further_columns_blank_lines_and_a_byte_order_mark_are_ignored(write):
    plain = TraceTimes(write("worker,seconds\n0,1\n1,2\n"))
    decorated = TraceTimes(write("\ufeffhost,seconds, worker\na,1,0\n\nb, 2, 1\n", "other.csv"))
    assert decorated.durations == plain.durations


def test_repr_depends_on_the_contents_and_not_on_the_folder(write):
    text = "worker,seconds\n0,1\n"
    assert TraceTimes(write(text, "a/trace.csv")) == TraceTimes(write(text, "b/trace.csv"))
    assert TraceTimes(write(text, "a/trace.csv")) != TraceTimes(write("worker,seconds\n0,2\n", "b/trace.csv"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "line 1: .* worker and seconds, got an empty file"),
        ("rank,seconds\n0,1\n", "line 1: .* got 'rank', 'seconds'"),
        ("worker,seconds\n", "no row below its header"),
        ("worker,seconds\n0,1\n0.5,1\n", "line 3: worker must be an integer of at least 0, got '0.5'"),
        ("worker,seconds\n-1,1\n", "line 2: worker must be .* got '-1'"),
        ("worker,seconds\n0,1\n1,fast\n", "line 3: seconds must be a positive, finite number, got 'fast'"),
        ("worker,seconds\n0,0\n", "line 2: seconds must be .* got '0'"),
        ("worker,seconds\n0,-1\n", "line 2: seconds must be .* got '-1'"),
        ("worker,seconds\n0,nan\n", "line 2: seconds must be .* got 'nan'"),
        ("worker,seconds\n0,inf\n", "line 2: seconds must be .* got 'inf'"),
        ("worker,seconds\n0,1\n0\n", "line 3: seconds must be .* got ''"),
        ("worker,seconds\n0,1\n3,1\n", "no row for worker 1, but one for worker 3"),
    ],
)
def test_bad_files_are_refused_with_the_line(write, text, message):
    with pytest.raises(ValueError, match=message):
        TraceTimes(write(text))


def test_unknown_order_is_refused(write):
    with pytest.raises(ValueError, match="order must be one of 'cycle', 'random', got 'shuffle'"):
        TraceTimes(write("worker,seconds\n0,1\n"), order="shuffle")


def test_a_missing_file_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"trace\.csv"):
        TraceTimes(tmp_path / "trace.csv")
