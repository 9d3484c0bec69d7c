import math
from itertools import islice

import pytest
import torch

from recipes.a9a.objective import MINIMUM
from recipes.data import load_a9a
from recipes.local_training import Cell, Drift, Factorial, Setting, objectives, predicted_ratios, time_to_target
from recipes.local_training import __main__ as command
from recipes.local_training.__main__ import main
from recipes.local_training.factorial import best
from recipes.local_training.logistic import _owned_rows
from recipes.local_training.running import Task, stored_cell
from recipes.studies import Results

SLOW = Setting("corrected", 0.1, window=4.0, travel=16.0)


@pytest.mark.parametrize("study", [Factorial(), Drift()], ids=["factorial", "drift"])
def test_every_condition_has_its_control_that_never_communicates(study):
    conditions = {}
    for setting in study.settings():
        condition = (setting.slowdown, setting.travel, setting.window, setting.skewed)
        conditions.setdefault(condition, []).append((setting.variant, setting.sparsity))
    assert len(conditions) in (4, 8)
    for cells in conditions.values():
        assert len(cells) == len(set(cells)) == 3 * 4 + 1
        assert cells[-1] == ("corrected", 0.0)


@pytest.mark.parametrize("study", [Factorial, Drift])
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"sparsity": []}, "sparsity is empty: give at least one number"),
        ({"seeds": [0, 5], "tuning_seeds": [5]}, r"seeds \[5\] would be tuned on and reported"),
        ({"seeds": [-1]}, r"seeds must be different numbers, 0 or more; got \[-1\]"),
        ({"seeds": []}, "seeds is empty"),
        ({"sparsity": [0.0]}, r"sparsity must be above 0 and at most 1, got \[0.0\]"),
        ({"travel": [math.inf]}, r"travel must be finite and at least 0, got \[inf\]"),
        ({"lr": [math.nan]}, r"lr must be finite and above 0, got \[nan\]"),
        ({"workers": 0}, "workers must be at least 2, got 0"),
    ],
)
def test_studies_that_make_no_sense_are_refused(study, arguments, message):
    with pytest.raises(ValueError, match=message):
        study(**arguments)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Factorial(max_time=math.nan), "max_time must be finite and above 0, got nan"),
        (lambda: Factorial(target=0.3), "target must be above 0.32338, got 0.3"),
        (lambda: Factorial(slowdown=[0.5]), "slowdown must be at least 1"),
        (lambda: Factorial(window=[0.0]), "window must be above 0"),
        (lambda: Drift(time=math.inf), "time must be finite and above 0, got inf"),
        (lambda: Drift(skewed=[]), "skewed is empty"),
    ],
)
def test_numbers_of_one_study_that_make_no_sense_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_a_variant_that_does_not_exist_is_refused():
    with pytest.raises(ValueError, match="variant must be one of blocking, overwrite, corrected, got 'naive'"):
        Setting("naive", 0.1, window=4.0, travel=4.0)


def test_tuning_takes_the_smallest_total_and_gives_up_what_cannot_win():
    asked = []

    def time(lr, seed, max_time):
        asked.append((lr, seed, max_time))
        needed = {1.0: [10.0, 20.0], 2.0: [25.0, 1.0], 4.0: [40.0, 1.0]}[lr][seed]
        return needed if needed <= max_time else math.inf

    assert best(time, [1.0, 2.0, 4.0], [0, 1], max_time=100.0) == 2.0
    assert asked == [(1.0, 0, 100.0), (1.0, 1, 100.0), (2.0, 0, 30.0), (2.0, 1, 5.0), (4.0, 0, 26.0)]


def test_the_time_to_a_target_lies_between_the_rounds_around_it():
    path = list(islice(objectives(SLOW, 0.5, seed=0), 6))
    (before, high), (after, low) = path[2], path[3]
    assert low < high
    assert time_to_target(SLOW, 0.5, 0, (low + high) / 2, max_time=500.0) == pytest.approx((before + after) / 2)


def test_a_target_that_is_not_reached_takes_forever():
    assert time_to_target(SLOW, 0.5, 0, MINIMUM / 2, max_time=60.0) == math.inf


def test_overwriting_nothing_is_correcting_nothing():
    variants = [Setting(variant, 0.0, 4.0, 16.0) for variant in ("corrected", "overwrite")]
    assert len({tuple(islice(objectives(setting, 0.5, seed=1), 5)) for setting in variants}) == 1


def test_skewed_data_are_split_by_label_and_nothing_is_lost():
    targets = load_a9a().train.targets
    owned = _owned_rows(8)
    assert torch.cat(owned).sort().values.tolist() == list(range(len(targets)))
    assert sorted(len(targets[rows].unique()) for rows in owned) == [1] * 7 + [2]


def test_skew_costs_accuracy_where_nothing_is_sent():
    study = Drift(time=100.0)
    split, whole = (Setting("corrected", 0.0, 4.0, 4.0, skewed=skewed) for skewed in (True, False))
    assert study.gap(split, 0.25, seed=0) > 5 * study.gap(whole, 0.25, seed=0)


def test_step_counting_ranges_from_blocking_to_corrected():
    assert predicted_ratios(4.0, 16.0, 1.0)["overwrite"] == predicted_ratios(4.0, 16.0, 1.0)["blocking"]
    assert predicted_ratios(4.0, 16.0, 0.0)["overwrite"] == 1.0


@pytest.mark.parametrize(
    ("study", "arguments"),
    [
        ("factorial", ["--window=[4]", "--slowdown=[1]", "--target=0.4"]),
        ("drift", ["--skewed=[true]", "--time=40"]),
    ],
)
def test_a_study_writes_its_tables_and_one_line_per_run(tmp_path, capsys, study, arguments):
    small = ["--sparsity=[1.0,0.01]", "--travel=[8]", "--lr=[0.5]", "--seeds=[0,1]", f"--output={tmp_path}"]
    main([study, *small, *arguments])
    tables = (tmp_path / "tables.md").read_text()
    assert tables.strip() in capsys.readouterr().out
    assert "p = 0.01" in tables
    assert "never communicating" in tables
    assert (tmp_path / "results.png").read_bytes().startswith(b"\x89PNG")
    assert len((tmp_path / "results.csv").read_text().splitlines()) == 1 + 7 * 2


TINY = ["factorial", "--sparsity=[0.01]", "--window=[4]", "--slowdown=[1]", "--travel=[8]", "--lr=[0.5]", "--seeds=[0]"]
TINY += ["--tuning_seeds=[1]", "--target=0.5"]


def test_measured_cells_are_kept_and_damaged_ones_measured_again(tmp_path):
    main([*TINY, f"--output={tmp_path}"])
    kept, damaged = sorted((tmp_path / "runs").iterdir())[:2]
    before, whole = kept.stat().st_mtime_ns, damaged.read_text()
    damaged.write_text(whole[:-9])
    main([*TINY, f"--output={tmp_path}"])
    assert kept.stat().st_mtime_ns == before
    assert damaged.read_text() == whole


def test_a_cell_has_one_key_whatever_else_its_study_measures():
    one, more = Factorial(sparsity=[0.1]), Factorial(sparsity=[0.1, 0.5])
    setting = one.settings()[0]
    assert Task(one, setting).key == Task(more, setting).key
    other = Factorial(sparsity=[0.1], target=0.34)
    assert len({Task(study, setting).key for study in (one, other, Drift())}) == 3


def test_a_seed_without_a_result_survives_the_folder(tmp_path):
    task = Task(Factorial(), SLOW)
    cell = Cell(SLOW, 0.5, (1.0, math.inf))
    stored = Results(tmp_path, stored_cell)
    stored.write(task, cell)
    assert stored.read(task) == cell


@pytest.mark.parametrize("study", ["factorial", "drift"])
def test_an_output_that_is_a_file_is_refused_before_the_first_cell(tmp_path, capsys, study, monkeypatch):
    monkeypatch.setattr(command, "run_missing", None)
    (tmp_path / "file").write_text("")
    with pytest.raises(SystemExit):
        main([study, f"--output={tmp_path / 'file'}"])
    assert "--output must be a folder" in capsys.readouterr().err


def test_a_number_that_makes_no_sense_is_an_error_of_the_command_line(tmp_path, capsys):
    with pytest.raises(SystemExit):
        main(["factorial", "--max_time=.nan", f"--output={tmp_path / 'made'}"])
    assert "max_time must be finite and above 0, got nan" in capsys.readouterr().err
    assert not (tmp_path / "made").exists()
