import math

import numpy as np
import pytest

from lightning_async.cli.compare.measures import Outcome, better_point, mean_time, outcome, speed_up, time_to_target
from lightning_async.cli.compare.results import RunResult
from lightning_async.cli.compare.schema import Target

ACCURACY = Target("val/acc", 0.8, "max", window=2)


def at(time: float | None, final: float = 0.9) -> Outcome:
    return Outcome(time, 100.0, final)


def test_time_to_target_is_the_evaluation_at_which_the_running_mean_arrives() -> None:
    # Means of two: 0.8 - 0.05, then 0.85.
    assert time_to_target([1.0, 2.0, 3.0], [0.9, 0.6, 1.1], ACCURACY) == 3.0


def test_nothing_is_reached_before_the_window_is_full() -> None:
    assert time_to_target([1.0], [0.99], ACCURACY) is None


def test_a_target_to_be_undercut_is_reached_from_above() -> None:
    assert time_to_target([1.0, 2.0], [5.1, 5.0], Target("val/perplexity", 5.0, "min")) == 2.0


def test_the_target_is_compared_in_the_single_precision_of_the_metric() -> None:
    assert time_to_target([1.0], [float(np.float32(0.82))], Target("val/acc", 0.82)) == 1.0


def test_nan_never_reaches_the_target() -> None:
    assert time_to_target([1.0, 2.0], [math.nan, math.nan], ACCURACY) is None


def test_a_target_that_no_run_logs_is_an_error_that_lists_what_is_logged() -> None:
    with pytest.raises(KeyError, match="val/loss"):
        outcome(RunResult("finished", [1.0], [1], [0.5], {"val/loss": [0.1]}), ACCURACY, 100.0)


def test_the_smallest_mean_time_wins_the_grid() -> None:
    assert better_point({"slow": [at(50.0), at(40.0)], "fast": [at(30.0), at(44.0)]}, ACCURACY) == "fast"


def test_a_point_with_a_censored_run_loses_to_one_that_always_arrived_however_late() -> None:
    assert better_point({"risky": [at(10.0), at(None)], "safe": [at(99.0), at(98.0)]}, ACCURACY) == "safe"


def test_points_that_never_arrive_are_ranked_by_the_final_metric() -> None:
    grid = {"low": [at(None, 0.5)], "high": [at(None, 0.7)], "diverged": [at(None, math.nan)]}
    assert better_point(grid, ACCURACY) == "high"
    assert better_point(grid, Target("val/loss", 0.1, "min")) == "low"


def test_speed_up_is_the_mean_of_paired_ratios_with_its_standard_error() -> None:
    estimate = speed_up({0: at(60.0), 1: at(40.0), 2: at(50.0)}, {0: at(30.0), 1: at(40.0), 2: at(25.0)})
    # Ratios 2, 1, 2: mean 5/3, sample variance 1/3, standard error sqrt(1/9).
    assert estimate.mean == pytest.approx(5 / 3)
    assert estimate.error == pytest.approx(1 / 3)
    assert (estimate.count, estimate.bound) == (3, "=")


def test_speed_up_pairs_by_seed_and_not_by_position() -> None:
    assert speed_up({0: at(60.0), 1: at(20.0)}, {1: at(10.0), 0: at(30.0)}).mean == 2.0


def test_needing_nothing_at_all_is_no_speed_up() -> None:
    estimate = speed_up({0: at(60.0), 1: at(40.0)}, {0: at(0.0), 1: at(20.0)})
    assert (estimate.mean, estimate.count) == (2.0, 1)
    assert speed_up({0: at(60.0)}, {0: at(0.0)}).bound == "?"


def test_a_censored_reference_makes_the_speed_up_a_lower_bound() -> None:
    estimate = speed_up({0: at(None), 1: at(50.0)}, {0: at(50.0), 1: at(25.0)})
    assert (estimate.mean, estimate.bound) == (2.0, ">")


def test_a_censored_method_makes_the_speed_up_an_upper_bound() -> None:
    estimate = speed_up({0: at(50.0)}, {0: at(None)})
    assert (estimate.mean, estimate.bound) == (0.5, "<")


def test_bounds_in_both_directions_determine_nothing() -> None:
    assert speed_up({0: at(50.0), 1: at(None)}, {0: at(None), 1: at(50.0)}).bound == "?"


def test_seeds_of_which_neither_run_arrived_are_not_counted_as_pairs() -> None:
    assert speed_up({0: at(None), 1: at(50.0)}, {0: at(None), 1: at(25.0)}).count == 1


def test_a_failed_run_is_neither_a_time_nor_a_pair() -> None:
    failed = Outcome(None, 100.0, math.nan, "failed")
    assert mean_time([at(40.0), failed]).count == 1
    assert speed_up({0: failed, 1: at(50.0)}, {0: at(10.0), 1: at(25.0)}).count == 1


def test_censored_runs_stay_in_the_mean_time_as_a_lower_bound() -> None:
    estimate = mean_time([at(40.0), at(None)])
    assert (estimate.mean, estimate.bound, estimate.count) == (70.0, ">", 2)
