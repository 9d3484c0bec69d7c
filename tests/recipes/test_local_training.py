import math
from itertools import islice

import pytest
import torch

from recipes.data import load_a9a
from recipes.local_training import Drift, Factorial, Setting, objectives, predicted_ratios, time_to_target
from recipes.local_training.__main__ import main
from recipes.local_training.factorial import best
from recipes.local_training.logistic import MINIMUM, _owned_rows

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
        ({"sparsity": []}, "sparsity is an empty list"),
        ({"seeds": [0, 5], "tuning_seeds": [5]}, r"seeds \[5\] would be tuned on and reported"),
    ],
)
def test_studies_that_say_nothing_are_refused(study, arguments, message):
    with pytest.raises(ValueError, match=message):
        study(**arguments)


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
