"""The keys of a comparison file and their defaults, before anything is known of their values."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import cast

from lightning_async.cli.compare.configuration import Value


@dataclass
class MethodKeys:
    """Keys of one entry of `methods`."""

    label: Value = None
    config: Value = None
    overrides: Value = field(default_factory=dict)
    grid: Value = field(default_factory=dict)


@dataclass
class PanelMethodKeys:
    """Keys of one entry of a panel's `methods`."""

    overrides: Value = field(default_factory=dict)
    grid: Value = field(default_factory=dict)


@dataclass
class PanelKeys:
    """Keys of one entry of `panels`."""

    title: Value = None
    cluster: Value = field(default_factory=dict)
    overrides: Value = field(default_factory=dict)
    methods: Value = None


@dataclass
class TargetKeys:
    """Keys of `target`."""

    metric: Value
    value: Value
    mode: Value = "max"
    window: Value = 1


@dataclass
class WandbKeys:
    """Keys of `wandb`."""

    project: Value
    entity: Value = None
    offline: Value = False


@dataclass
class FileKeys:
    """Keys of the file."""

    recipe: Value
    cluster: Value
    budget: Value
    evaluate_every: Value
    target: Value
    methods: Value
    title: Value = None
    seeds: Value = field(default_factory=lambda: cast("Value", [0, 1, 2]))
    tuning_seeds: Value = field(default_factory=lambda: cast("Value", [1000]))
    loss: Value = "val/loss"
    stop_at_target: Value = False
    overrides: Value = field(default_factory=dict)
    methods_folder: Value = "../methods"
    panels: Value = None
    axes: Value = field(default_factory=dict)
    wandb: Value = None
