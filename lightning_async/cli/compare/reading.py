"""Reading a comparison file: what it may say, and what is wrong with what it says instead."""

from __future__ import annotations

import copy
import math
import os
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Literal, cast

from lightning_async.cli.compare.configuration import (
    ComparisonError,
    Config,
    Value,
    expand,
    lookup,
    merge,
    number,
    numbers,
)
from lightning_async.cli.compare.files import read_yaml
from lightning_async.cli.compare.keys import FileKeys, MethodKeys, PanelKeys, PanelMethodKeys, TargetKeys, WandbKeys
from lightning_async.cli.compare.overrides import check_overrides, with_overrides
from lightning_async.cli.compare.schema import LOGICAL_TIME, Axis, Comparison, MethodEntry, Panel, Target, Wandb
from lightning_async.cli.compare.values import (
    read_flag,
    read_keys,
    read_list,
    read_mapping,
    read_positive,
    read_seeds,
    read_text,
)
from lightning_async.cli.nearest import nearest


def load_comparison(path: Path) -> Comparison:
    """Reads and checks a comparison file.

    Args:
        path: The YAML file. Paths inside it are relative to its folder.

    Raises:
        ComparisonError: With the place in the file, what was found there, and what is allowed.
    """
    keys = read_keys(FileKeys, read_yaml(path, "comparison"), str(path))
    recipe_paths = tuple(
        Path(os.path.normpath(path.parent / read_text(p, "recipe"))) for p in read_list(keys.recipe, "recipe")
    )
    recipe = _merged_recipe(recipe_paths, read_mapping(keys.overrides, "overrides"))
    cluster = _cluster(keys.cluster, "cluster", {})
    methods = _methods(keys, path.parent, recipe, cluster)
    comparison = Comparison(
        name=path.stem,
        path=path,
        title=path.stem if keys.title is None else read_text(keys.title, "title"),
        recipe=recipe,
        recipe_paths=recipe_paths,
        cluster=cluster,
        budget=read_positive(keys.budget, "budget"),
        evaluate_every=read_positive(keys.evaluate_every, "evaluate_every"),
        target=_target(keys.target),
        seeds=read_seeds(keys.seeds, "seeds"),
        tuning_seeds=read_seeds(keys.tuning_seeds, "tuning_seeds"),
        loss=read_text(keys.loss, "loss"),
        stop_at_target=read_flag(keys.stop_at_target, "stop_at_target"),
        panels=_panels(
            keys.panels, methods, recipe, path.stem if keys.title is None else read_text(keys.title, "title")
        ),
        wandb=None if keys.wandb is None else _wandb(keys.wandb),
        axes=_axes(keys.axes),
    )
    if comparison.evaluate_every * comparison.target.window > comparison.budget:
        raise ComparisonError(
            f"budget {comparison.budget} leaves no room for target.window = {comparison.target.window} evaluations "
            f"every {comparison.evaluate_every}: raise the budget or evaluate more often"
        )
    return comparison


def _target(value: Value) -> Target:
    keys = read_keys(TargetKeys, value, "target")
    if keys.mode not in ("max", "min"):
        raise ComparisonError(f"target.mode: expected 'max' or 'min', got {keys.mode!r}")
    if isinstance(keys.window, bool) or not isinstance(keys.window, int) or keys.window < 1:
        raise ComparisonError(f"target.window: expected an integer of at least 1 (evaluations), got {keys.window!r}")
    goal = number(keys.value, "target.value")
    if not math.isfinite(goal):
        raise ComparisonError(f"target.value: must be finite, got {keys.value!r}")
    return Target(read_text(keys.metric, "target.metric"), goal, cast('Literal["max", "min"]', keys.mode), keys.window)


def _axes(value: Value) -> tuple[Axis, ...]:
    axes = tuple(Axis(name, read_text(unit, f"axes.{name}")) for name, unit in read_mapping(value, "axes").items())
    for axis in axes:
        if axis.quantity == LOGICAL_TIME.quantity:
            raise ComparisonError("axes: logical_time is measured in any case; name others, such as steps or bits_sent")
    return axes


def _wandb(value: Value) -> Wandb:
    keys = read_keys(WandbKeys, value, "wandb")
    entity = None if keys.entity is None else read_text(keys.entity, "wandb.entity")
    return Wandb(read_text(keys.project, "wandb.project"), entity, read_flag(keys.offline, "wandb.offline"))


def _cluster(value: Value, where: str, below: Config) -> Config:
    given = read_mapping(value, where)
    for key in given:
        if key not in ("times", "link"):
            remedy = "seeds are set per run by 'seeds'" if key == "seed" else nearest(key, ["times", "link"])
            raise ComparisonError(f"{where}: unknown key {key!r}; {remedy}")
    cluster = merge(below, given)
    if "times" not in cluster:
        raise ComparisonError(f"{where}: missing 'times' (class_path and init_args of the worker times)")
    return cluster


def _merged_recipe(paths: tuple[Path, ...], overrides: Config) -> Config:
    recipe: Config = {}
    for path in paths:
        recipe = merge(recipe, read_yaml(path, "recipe"))
    if "model" not in recipe:
        raise ComparisonError(f"recipe: {', '.join(map(str, paths))} names no 'model'")
    return with_overrides(recipe, overrides, "overrides")


def _methods(keys: FileKeys, folder: Path, recipe: Config, cluster: Config) -> dict[str, MethodEntry]:
    overlays = Path(os.path.abspath(folder / read_text(keys.methods_folder, "methods_folder")))
    known = {p.stem for p in overlays.glob("*.yaml")}
    elsewhere = "" if known else "; let methods_folder name the folder of the overlays (configs/methods)"
    entries = {}
    for name, content in read_mapping(keys.methods, "methods").items():
        where = f"methods.{name}"
        entry = read_keys(MethodKeys, {} if content is None else content, where)
        if entry.config is None and name not in known:
            raise ComparisonError(
                f"{where}: there is no method {name!r} in {overlays}; {nearest(name, known)}{elsewhere}"
            )
        config = (
            overlays / f"{name}.yaml" if entry.config is None else folder / read_text(entry.config, f"{where}.config")
        )
        if not config.is_file():
            raise ComparisonError(f"{where}.config: there is no file {config}")
        overlay = _strategy_overlay(_alone(read_yaml(config, where)), where)
        overrides = read_mapping(entry.overrides, f"{where}.overrides")
        overlay = _strategy_overlay(with_overrides(overlay, overrides, f"{where}.overrides", below=recipe), where)
        entries[name] = MethodEntry(
            name=name,
            label=name if entry.label is None else read_text(entry.label, f"{where}.label"),
            config=overlay,
            grid=_grid(entry.grid, merge(recipe, overlay), f"{where}.grid"),
            cluster=cluster,
        )
    if not entries:
        raise ComparisonError(
            "methods: at least one method is needed; the first is what speed-ups are measured against"
        )
    return entries


def _alone(overlay: Config) -> Config:
    """Drops the nulls by which an overlay resets what a previous one has set: here there is no previous one."""
    config = copy.deepcopy(overlay)
    strategy = "trainer.strategy.init_args"
    for key in (strategy, f"{strategy}.cluster.init_args", f"{strategy}.method.init_args"):
        section: Value = config
        for part in key.split("."):
            section = section.get(part) if isinstance(section, dict) else None
        for name in ("optimizer", "link", "second"):
            if isinstance(section, dict) and name in section and section[name] is None:
                del section[name]
    return config


def _strategy_overlay(config: Config, where: str) -> Config:
    if not isinstance(lookup(config, "trainer.strategy.class_path"), str):
        raise ComparisonError(
            f"{where}: the overlay must set trainer.strategy.class_path (and init_args), so that every method can be "
            f"given the same cluster; it sets trainer.strategy to {lookup(config, 'trainer.strategy')!r}"
        )
    return config


def _grid(value: Value, config: Config, where: str) -> dict[str, list[float]]:
    grid: dict[str, list[float]] = {}
    for key, values in read_mapping(value, where).items():
        grid[key] = numbers(values, f"{where}.{key}")
        check_overrides({key: 0.0}, config, where)
        if not grid[key]:
            raise ComparisonError(f"{where}.{key}: the list is empty")
        if len(set(grid[key])) != len(grid[key]):
            raise ComparisonError(f"{where}.{key}: a value appears twice in {values!r}")
    return grid


def _panels(value: Value, methods: Mapping[str, MethodEntry], recipe: Config, title: str) -> tuple[Panel, ...]:
    if value is None:
        return (Panel("all", title, _told_apart(methods.values(), "methods")),)
    panels = []
    for name, content in read_mapping(value, "panels").items():
        where = f"panels.{name}"
        if not name.replace("_", "").replace("-", "").isalnum():
            raise ComparisonError(f"{where}: the name becomes part of file names; use letters, digits, - and _")
        keys = read_keys(PanelKeys, {} if content is None else content, where)
        common = read_mapping(keys.overrides, f"{where}.overrides")
        own = read_mapping(keys.cluster, f"{where}.cluster")
        chosen = dict.fromkeys(methods) if keys.methods is None else read_mapping(keys.methods, f"{where}.methods")
        entries = [
            replace(
                _in_panel(method, changes, methods, recipe, common, where),
                cluster=_cluster(own, f"{where}.cluster", methods[method].cluster),
            )
            for method, changes in chosen.items()
        ]
        if not entries:
            raise ComparisonError(f"{where}.methods: the mapping is empty; leave the key out to have all methods")
        title = "" if keys.title is None else read_text(keys.title, f"{where}.title")
        panels.append(Panel(name, title, _told_apart(entries, where)))
    if not panels:
        raise ComparisonError("panels: the mapping is empty; leave the key out to have one panel with all methods")
    return tuple(panels)


def _told_apart(entries: Iterable[MethodEntry], where: str) -> tuple[MethodEntry, ...]:
    entries = tuple(entries)
    labels = [entry.label for entry in entries]
    for label in labels:
        if labels.count(label) > 1:
            raise ComparisonError(f"{where}: several methods are labelled {label!r}; give each a label of its own")
    return entries


def _in_panel(
    name: str, changes: Value, methods: Mapping[str, MethodEntry], recipe: Config, common: Config, panel: str
) -> MethodEntry:
    if name not in methods:
        raise ComparisonError(f"{panel}.methods: unknown method {name!r}; {nearest(name, methods)}")
    where = f"{panel}.methods.{name}"
    extra = read_keys(PanelMethodKeys, {} if changes is None else changes, where)
    own = read_mapping(extra.overrides, f"{where}.overrides")
    base = methods[name]
    config = with_overrides(base.config, common, f"{panel}.overrides", below=recipe)
    config = with_overrides(config, own, f"{where}.overrides", below=recipe)
    fixed = merge(expand(common, f"{panel}.overrides"), expand(own, f"{where}.overrides"))
    # What a panel fixes is no longer searched there.
    searched = {key: values for key, values in base.grid.items() if lookup(fixed, key) is None}
    return MethodEntry(
        name=name,
        label=base.label,
        config=_strategy_overlay(config, where),
        grid={**searched, **_grid(extra.grid, merge(recipe, config), f"{where}.grid")},
        cluster=base.cluster,
    )
