from pathlib import Path
from typing import Any

import pytest
import yaml

from lightning_async.cli.compare.configuration import ComparisonError, expand, lookup, merge, number
from lightning_async.cli.compare.plan import (
    chosen_point,
    comparison_identity,
    grid_points,
    known_runs,
    make_run,
    reported_runs,
    tuning_runs,
    without_left_out,
)
from lightning_async.cli.compare.reading import load_comparison
from lightning_async.cli.compare.results import RunResult

REPOSITORY = Path(__file__).parents[2]
LR = "optimizer.init_args.lr"
STRATEGY = "trainer.strategy.init_args"


def write(folder: Path, changes: dict[str, Any] | None = None, without: str = "") -> Path:
    (folder / "compare").mkdir(parents=True, exist_ok=True)
    (folder / "methods").mkdir(exist_ok=True)
    recipe = {
        "model": {"class_path": "a.Model"},
        "optimizer": {"class_path": "torch.optim.SGD", "init_args": {"lr": 0.1}},
        "trainer": {"max_steps": 5, "callbacks": [{"class_path": "lightning_async.callbacks.LogicalTimeLimit"}]},
    }
    (folder / "recipe.yaml").write_text(yaml.safe_dump(recipe))
    for name in ("asgd", "clipped_asgd"):
        method = {"class_path": f"lightning_async.methods.{name}"}
        strategy = {"class_path": "lightning_async.ParameterServerStrategy", "init_args": {"method": method, "seed": 9}}
        (folder / "methods" / f"{name}.yaml").write_text(yaml.safe_dump({"trainer": {"strategy": strategy}}))
    content: dict[str, Any] = {
        "recipe": "../recipe.yaml",
        "cluster": {"times": {"class_path": "T", "init_args": {"num_workers": 2}}},
        "budget": 10,
        "evaluate_every": 1,
        "target": {"metric": "val/acc", "value": 0.5},
        "seeds": [0, 1],
        "methods": {"asgd": None, "clipped_asgd": {"label": "Clipped"}},
    }
    content.update(changes or {})
    content.pop(without, None)
    path = folder / "compare" / "mine.yaml"
    path.write_text(yaml.safe_dump(content, sort_keys=False))
    return path


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"seedz": [1]}, "unknown key 'seedz'; did you mean 'seeds'"),
        ({"methods": {"cliped_asgd": None}}, "no method 'cliped_asgd'.*did you mean 'clipped_asgd'"),
        ({"methods": {}}, "at least one method"),
        ({"methods": {"asgd": {"labell": "x"}}}, r"methods.asgd: unknown key 'labell'; did you mean 'label'"),
        ({"methods": {"mine": {"config": "nowhere.yaml"}}}, r"methods.mine.config: there is no file"),
        ({"methods": {"asgd": {"grid": {LR: []}}}}, "the list is empty"),
        ({"methods": {"asgd": {"grid": {LR: "2^1..2^-1"}}}}, "the list is empty"),
        ({"methods": {"asgd": {"grid": {LR: ["fast"]}}}}, "expected a number .*got 'fast'"),
        ({"methods": {"asgd": {"grid": {LR: [0.5, "2^-1"]}}}}, "appears twice"),
        ({"methods": {"asgd": {"overrides": {"a..b": 1}}}}, "'a..b' is not a configuration key"),
        ({"recipe": "nowhere.yaml"}, "recipe: there is no file"),
        ({"recipe": "../methods/asgd.yaml"}, "names no 'model'"),
        ({"budget": 0}, "budget: must be positive"),
        ({"budget": float("nan")}, "budget: must be positive"),
        ({"budget": True}, "budget: expected a number"),
        ({"evaluate_every": -1}, "evaluate_every: must be positive"),
        ({"evaluate_every": 11}, "leaves no room"),
        ({"seeds": []}, "seeds: the list is empty"),
        ({"seeds": [0, 0]}, "appears twice"),
        ({"seeds": [-1]}, "seeds are integers of at least 0"),
        ({"tuning_seeds": [0.5]}, "tuning_seeds: seeds are integers"),
        ({"cluster": {"link": {}}}, "missing 'times'"),
        ({"cluster": {"times": {}, "seed": 1}}, "unknown key 'seed'; seeds are set per run"),
        ({"target": {"metric": "a", "value": 1, "mode": "maximum"}}, "target.mode: expected 'max' or 'min'"),
        ({"target": {"metric": "a", "value": 1, "window": 0}}, "target.window"),
        ({"target": {"metric": "a", "value": float("inf")}}, "target.value: must be finite"),
        ({"target": {"metric": "a"}}, "target: missing value"),
        ({"panels": {}}, "the mapping is empty"),
        ({"panels": {"a/b": None}}, "becomes part of file names"),
        ({"panels": {"a": {"methods": {"asdg": None}}}}, "unknown method 'asdg'; did you mean 'asgd'"),
        ({"panels": {"a": {"methods": {"asgd": {"label": "x"}}}}}, "unknown key 'label'"),
        ({"panels": {"a": {"methods": {}}}}, "the mapping is empty"),
        ({"panels": {"a": {"cluster": {"seed": 1}}}}, r"panels.a.cluster: unknown key 'seed'; seeds are set per run"),
        ({"panels": {"a": {"cluster": 3}}}, r"panels.a.cluster: expected a mapping, got 3"),
        ({"wandb": {"entity": "me"}}, "wandb: missing project"),
        (
            {"methods_folder": "nowhere"},
            "no method 'asgd' in .*nowhere; .*let methods_folder name",
        ),
        (
            {"methods": {"asgd": {"label": "mine"}, "clipped_asgd": {"label": "mine"}}},
            "several methods are labelled 'mine'",
        ),
        ({"stop_at_target": "yes please"}, "expected true or false"),
        ({"title": 3}, "title: expected text"),
        ({"seeds": [2**32]}, r"at most 2\^32 - 1, got 4294967296"),
        ({"methods": {1: None}}, "methods: names must be text, got 1; put it in quotes"),
        ({"panels": {1: None}}, "panels: names must be text, got 1"),
        ({"methods": {"asgd": {"grid": {"trainer.max_steps": [5, 6]}}}}, "max_steps is set by the comparison.*budget"),
        ({"overrides": {"trainer": {"val_check_interval": 3}}}, "val_check_interval is set .* use evaluate_every"),
        ({"overrides": {"seed_everything": 1}}, "seed_everything is set by the comparison in every run.*use seeds"),
        ({"panels": {"a": {"overrides": {f"{STRATEGY}.seed": 1}}}}, "panels.a.overrides: .*seed is set by"),
        ({"methods": {"asgd": {"overrides": {f"{STRATEGY}.cluster.init_args.seed": 1}}}}, "cluster is set by"),
        ({"overrides": {"trainer": "x"}}, "overrides: trainer is a mapping, got 'x'; set a key of it instead"),
        (
            {"panels": {"a": {"methods": {"asgd": {"overrides": {"trainer.strategy": None}}}}}},
            "trainer.strategy is a m",
        ),
        ({"methods": {"asgd": {"overrides": {"optimizer.init_args": 3}}}}, "optimizer.init_args is a mapping, got 3"),
        ({"methods": {"asgd": {"grid": {"optimizer": [1, 2]}}}}, "grid: optimizer is a mapping"),
        ({"overrides": {"trainer.max_steps.x": 3}}, "trainer.max_steps is"),
        ({"methods": {"asgd": {"grid": {LR: "2^9999"}}}}, r"2\^9999 is out of the range"),
        ({"methods": {"asgd": {"grid": {LR: "2^-9999..2^9999"}}}}, "out of the range"),
        ({"methods": {"asgd": {"grid": {LR: "2^0..2^99999999999"}}}}, "exponent 99999999999 is out of range"),
        ({"methods": {"asgd": {"grid": {LR: [float("inf")]}}}}, "must be finite"),
    ],
)
def test_a_mistake_is_named_with_its_place_and_remedy(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ComparisonError, match=message):
        load_comparison(write(tmp_path, changes))


@pytest.mark.parametrize("key", ["recipe", "cluster", "budget", "evaluate_every", "target", "methods"])
def test_a_missing_key_is_named(tmp_path: Path, key: str) -> None:
    with pytest.raises(ComparisonError, match=f"missing {key}"):
        load_comparison(write(tmp_path, without=key))


def test_an_overlay_without_a_strategy_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path)
    (tmp_path / "methods" / "asgd.yaml").write_text("trainer: {precision: 32}")
    with pytest.raises(ComparisonError, match=r"must set trainer\.strategy\.class_path"):
        load_comparison(path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"a: [", "not valid YAML"),
        (b"- 1", "must hold a mapping"),
        ("a: 1".encode("utf-16"), "not text in UTF-8"),
        (b"\0\1", "not valid YAML"),
        (b"a:\n  b: 1\n  c: 2\n  b: 3\n", "the key 'b' is in line 2 and again in line 4; keep one"),
        (b"a: {b: [1, 2020-01-01]}", r"bad\.yaml: a\.b\[1\]: expected text.*\(date\); .* in quotes: '2020-01-01'"),
        (b"a: !!binary aGk=", r"a: expected .* got b'hi' \(bytes\)"),
        (b"a: !!set {b, c}", r"a: expected .* \(set\)"),
        (b"a: {1: x, b: y}", "a: names must be text, got 1; put it in quotes: '1'"),
        (b"a: {yes: x}", "a: names must be text, got True"),
        (b"budget: 1" + b"0" * 400, "budget: the number is out of range"),
        (b"budget: 0x1" + b"0" * 5000, "budget: the number is out of range"),
        (b"a: &x [*x]", "nested too deeply, or within itself"),
        (b"a: " + b"[" * 60 + b"]" * 60, "nested too deeply"),
        (b"a: " + b"[" * 5000 + b"]" * 5000, "nested too deeply"),
        (b'title: "\\ud800"', r"title: '\\ud800' has half of a character"),
    ],
)
def test_a_file_that_is_no_configuration_is_refused(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "bad.yaml").write_bytes(content)
    with pytest.raises(ComparisonError, match=message):
        load_comparison(tmp_path / "bad.yaml")


def test_a_class_of_the_recipe_may_take_a_mapping_with_integers_for_keys(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text("model: {class_path: a.B, init_args: {widths: {1: 64, 2: 32}}}")
    recipe = load_comparison(write(tmp_path, {"recipe": "../mine.yaml"})).recipe
    assert recipe["model"] == {"class_path": "a.B", "init_args": {"widths": {1: 64, 2: 32}}}


def test_a_folder_in_the_place_of_a_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ComparisonError, match="is a folder; name a YAML file"):
        load_comparison(tmp_path)
    with pytest.raises(ComparisonError, match=r"recipe: .* is a folder"):
        load_comparison(write(tmp_path, {"recipe": "../methods"}))


def test_a_class_may_be_replaced_by_another_or_by_none(tmp_path: Path) -> None:
    overrides = {"optimizer": None, "model": "a.Other"}
    recipe = load_comparison(write(tmp_path, {"overrides": overrides})).recipe
    assert (recipe["optimizer"], recipe["model"]) == (None, "a.Other")


def test_every_run_gets_the_same_cluster_and_its_own_seed_everywhere(tmp_path: Path) -> None:
    comparison = load_comparison(write(tmp_path))
    clusters = []
    for entry in comparison.panels[0].methods:
        config = make_run(comparison, entry, (), 7, stop=False).config
        assert config["seed_everything"] == 7
        assert lookup(config, "trainer.strategy.init_args.seed") == 7
        clusters.append(lookup(config, "trainer.strategy.init_args.cluster"))
    assert clusters[0] == clusters[1]
    assert lookup(clusters[0], "init_args.seed") == 7


def test_the_budget_replaces_every_other_limit_of_the_recipe(tmp_path: Path) -> None:
    comparison = load_comparison(write(tmp_path))
    trainer = make_run(comparison, comparison.panels[0].methods[0], (), 0, stop=False).config["trainer"]
    assert (trainer["max_steps"], trainer["max_epochs"]) == (-1, -1)
    limits = [c for c in trainer["callbacks"] if c["class_path"].endswith("LogicalTimeLimit")]
    assert limits == [{"class_path": "lightning_async.callbacks.LogicalTimeLimit", "init_args": {"time": 10}}]


def test_a_panel_beats_the_method_and_ends_its_search(tmp_path: Path) -> None:
    methods = {"asgd": {"overrides": {LR: 0.3}, "grid": {LR: [0.1, 0.2], "method.clip": [1, 2]}}}
    panels = {"free": None, "fixed": {"overrides": {LR: "2^-4"}}}
    comparison = load_comparison(write(tmp_path, {"methods": methods, "panels": panels}))
    free, fixed = (panel.methods[0] for panel in comparison.panels)
    assert len(grid_points(free)) == 4
    assert grid_points(fixed) == [(("method.clip", 1),), (("method.clip", 2),)]
    assert lookup(fixed.config, LR) == 2**-4


def test_a_panel_changes_the_cluster_of_all_its_methods_and_of_no_other(tmp_path: Path) -> None:
    link = {"class_path": "L", "init_args": {"latency": 4.0}}
    slow = {"cluster": {"link": link, "times": {"init_args": {"num_workers": 3}}}}
    comparison = load_comparison(write(tmp_path, {"panels": {"normal": None, "slow": slow}}))
    normal, changed = (
        [
            lookup(make_run(comparison, entry, (), 0, stop=False).config, f"{STRATEGY}.cluster.init_args")
            for entry in panel.methods
        ]
        for panel in comparison.panels
    )
    times = {"class_path": "T", "init_args": {"num_workers": 2}}
    assert normal == 2 * [{"times": times, "seed": 0}]
    assert changed == 2 * [{"times": {**times, "init_args": {"num_workers": 3}}, "link": link, "seed": 0}]


def test_a_panel_with_another_cluster_makes_another_comparison(tmp_path: Path) -> None:
    panels = [{"a": None}, {"a": {"cluster": {"link": {"class_path": "L"}}}}]
    identities = [
        comparison_identity(load_comparison(write(tmp_path / str(i), {"panels": changed})))
        for i, changed in enumerate(panels)
    ]
    assert identities[0] != identities[1]


@pytest.mark.parametrize(
    ("only", "kept", "left_out"),
    [
        (None, {"a": ["asgd", "clipped_asgd"], "b": ["asgd", "clipped_asgd"]}, []),
        ({"asgd"}, {"a": ["asgd"], "b": ["asgd", "clipped_asgd"]}, ["a/clipped_asgd"]),
        ({"a"}, {"a": ["asgd", "clipped_asgd"], "b": ["clipped_asgd"]}, ["b/asgd"]),
        ({"a/asgd"}, {"a": ["asgd"], "b": ["clipped_asgd"]}, ["a/clipped_asgd", "b/asgd"]),
    ],
)
def test_only_leaves_out_what_it_does_not_name_and_has_not_run(
    tmp_path: Path, only: set[str] | None, kept: dict[str, list[str]], left_out: list[str]
) -> None:
    comparison = load_comparison(write(tmp_path, {"panels": {"a": None, "b": {"overrides": {LR: 0.25}}}}))
    ran = reported_runs(comparison, comparison.panels[1].methods[1], ())[0]
    results = {ran.key: RunResult("finished", [1.0], [1], [0.1], {"val/acc": [0.1]})}
    shown, names = without_left_out(comparison, results, None if only is None else frozenset(only))
    assert {panel.name: [entry.name for entry in panel.methods] for panel in shown.panels} == kept
    assert names == left_out


def test_a_panel_of_which_nothing_is_left_is_left_out(tmp_path: Path) -> None:
    comparison = load_comparison(write(tmp_path, {"panels": {"a": None, "b": {"overrides": {LR: 0.25}}}}))
    shown, names = without_left_out(comparison, {}, frozenset({"b"}))
    assert [panel.name for panel in shown.panels] == ["b"]
    assert names == ["a"]


def test_a_run_that_two_panels_share_is_one_run(tmp_path: Path) -> None:
    comparison = load_comparison(write(tmp_path, {"panels": {"a": None, "b": None}}))
    assert len(known_runs(comparison, {})) == 2 * 2


def test_reported_runs_wait_for_the_grid_and_take_its_best_point(tmp_path: Path) -> None:
    methods = {"asgd": {"grid": {LR: [0.1, 0.2]}}}
    comparison = load_comparison(write(tmp_path, {"methods": methods}))
    entry = comparison.panels[0].methods[0]
    assert len(known_runs(comparison, {})) == 2
    results = {
        run.key: RunResult(
            "finished", [1.0, 2.0], [1, 2], [0.0, 0.0], {"val/acc": [0.0, 0.6 if dict(point)[LR] == 0.2 else 0]}
        )
        for point, runs in tuning_runs(comparison, entry).items()
        for run in runs
    }
    assert chosen_point(comparison, entry, results) == ((LR, 0.2),)
    known = known_runs(comparison, results)
    assert len(known) == 4
    assert all(run.key in known for run in reported_runs(comparison, entry, ((LR, 0.2),)).values())


def test_the_key_of_a_run_changes_with_anything_that_changes_its_result(tmp_path: Path) -> None:
    keys = set()
    variants = [
        {},
        {"budget": 12},
        {"evaluate_every": 2},
        {"cluster": {"times": {"class_path": "T", "init_args": {"num_workers": 3}}}},
        {"overrides": {LR: 0.2}},
        {"methods": {"asgd": {"overrides": {"trainer.strategy.init_args.on_nonfinite": "raise"}}}},
    ]
    for i, changes in enumerate(variants):
        comparison = load_comparison(write(tmp_path / str(i), changes))
        keys |= {make_run(comparison, comparison.panels[0].methods[0], (), seed, stop=False).key for seed in (0, 1)}
    assert len(keys) == 2 * len(variants)


def test_merging_another_class_drops_the_arguments_of_the_first() -> None:
    base = {"x": {"class_path": "A", "init_args": {"a": 1}}}
    assert merge(base, {"x": {"class_path": "B"}}) == {"x": {"class_path": "B"}}
    assert merge(base, {"x": {"class_path": "A", "init_args": {"b": 2}}})["x"]["init_args"] == {"a": 1, "b": 2}


@pytest.mark.parametrize(("text", "value"), [("2^-5", 2**-5), ("2**3", 8.0), ("1e-3", 1e-3), (4, 4.0)])
def test_numbers_may_be_written_as_powers(text: Any, value: float) -> None:
    assert number(text, "here") == value


def test_grids_may_be_written_as_ranges_of_powers(tmp_path: Path) -> None:
    methods = {"asgd": {"grid": {LR: "2^-3..2^-1"}}}
    entry = load_comparison(write(tmp_path, {"methods": methods})).panels[0].methods[0]
    assert entry.grid == {LR: [0.125, 0.25, 0.5]}


def test_nested_and_dotted_overrides_are_the_same() -> None:
    assert expand({"a.b": 1, "a": {"c.d": 2}}, "here") == {"a": {"b": 1, "c": {"d": 2}}}


@pytest.mark.parametrize("path", sorted((REPOSITORY / "configs" / "compare").glob("*.yaml")), ids=lambda p: p.stem)
def test_every_comparison_that_is_shipped_is_valid(path: Path) -> None:
    comparison = load_comparison(path)
    assert known_runs(comparison, {})
