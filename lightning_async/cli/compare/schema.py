"""A comparison, read and checked."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from lightning_async.cli.compare.configuration import Config


@dataclass(frozen=True)
class Target:
    """The value of a validation metric whose first passage is timed.

    Attributes:
        metric: Name under which the module logs it, for example `val/acc`.
        value: The value to reach.
        mode: `max` if larger is better, `min` if smaller is.
        window: The mean of this many consecutive evaluations has to reach the value. An iterate that is current at
            several points of the grid is evaluated once, and counts at each.
    """

    metric: str
    value: float
    mode: Literal["max", "min"] = "max"
    window: int = 1


@dataclass(frozen=True)
class Axis:
    """What progress is measured in: a quantity that only grows during a run.

    Attributes:
        quantity: `logical_time`, `steps` (server updates, or local steps), or what the method reports of itself, such
            as `bits_sent`.
        unit: How tables and figures call it.
    """

    quantity: str
    unit: str


LOGICAL_TIME = Axis("logical_time", "logical time")


@dataclass(frozen=True)
class MethodEntry:
    """One line of the table: a method overlay, how it is called, and what is changed or searched for it.

    Attributes:
        name: Key in the file, and name of the overlay in the methods folder unless `config` is given.
        label: How tables and figures call it.
        config: The overlay with the overrides of the method and of its panel.
        grid: Dotted key to candidate values; the Cartesian product of all keys is searched.
        cluster: Worker times and link, the same for all methods of a panel.
    """

    name: str
    label: str
    config: Config
    grid: dict[str, list[float]]
    cluster: Config


@dataclass(frozen=True)
class Panel:
    """One table and one pair of plots: the methods under one common condition."""

    name: str
    title: str
    methods: tuple[MethodEntry, ...]


@dataclass(frozen=True)
class Wandb:
    """Where the runs go in Weights & Biases, as one group named after the comparison.

    Attributes:
        config: What is told of a run beside the hyperparameters of its module.
    """

    project: str
    entity: str | None = None
    offline: bool = False
    config: Config = field(default_factory=dict)


@dataclass(frozen=True)
class Comparison:
    """A comparison file, read and checked.

    Attributes:
        name: Name of the file; default name of the folder the results go to.
        recipe: The merged recipe configurations.
        cluster: Worker times and link, where a panel has none of its own.
        budget: Logical time every run may use.
        evaluate_every: Logical time between two evaluations.
        seeds: Seeds whose runs are reported.
        tuning_seeds: Seeds of the grid search, by default disjoint from `seeds`.
        loss: Logged name of the loss that the figure shows beside the target's metric.
        stop_at_target: Whether reported runs end when they arrive; runs of a grid always do.
        axes: What is measured beside logical time; no run depends on it.
        made: Runs that were put together before: there are hundreds, and all are asked for after each that ends.
    """

    name: str
    path: Path
    title: str
    recipe: Config
    recipe_paths: tuple[Path, ...]
    cluster: Config
    budget: float
    evaluate_every: float
    target: Target
    seeds: tuple[int, ...]
    tuning_seeds: tuple[int, ...]
    loss: str
    stop_at_target: bool
    panels: tuple[Panel, ...]
    wandb: Wandb | None
    axes: tuple[Axis, ...] = ()
    made: dict[tuple[object, ...], object] = field(default_factory=dict, init=False, repr=False, compare=False)
