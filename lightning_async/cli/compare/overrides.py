"""Overrides and grids laid over a configuration: what they may not change, and what they may not destroy."""

from __future__ import annotations

from collections.abc import Mapping

from lightning_async.cli.compare.configuration import ComparisonError, Config, Value, expand, merge

_OWN_KEYS = {
    "seed_everything": "seeds",
    "trainer.strategy.init_args.cluster": "cluster",
    "trainer.strategy.init_args.seed": "seeds",
    "trainer.max_epochs": "budget",
    "trainer.max_steps": "budget",
    "trainer.max_time": "budget",
    "trainer.check_val_every_n_epoch": "evaluate_every",
    "trainer.val_check_interval": "evaluate_every",
    "trainer.num_sanity_val_steps": "evaluate_every",
    "trainer.logger": "wandb",
    "trainer.enable_progress_bar": "",
    "trainer.enable_model_summary": "",
    "trainer.enable_checkpointing": "",
}
"""What the comparison sets itself in every run, and the key of the comparison file to use instead."""

_SECTIONS = ("trainer", "trainer.strategy", "trainer.strategy.init_args")


def with_overrides(config: Config, overrides: Config, where: str, below: Config | None = None) -> Config:
    """Returns a configuration with overrides on top.

    Args:
        config: The configuration.
        overrides: Nested or dotted keys.
        where: Where the overrides are, for messages.
        below: What the configuration itself is laid over; the overrides have to fit that as well.

    Raises:
        ComparisonError: If they set what the comparison sets, or put something else in the place of a section.
    """
    check_overrides(overrides, merge(below or {}, config), where)
    return merge(config, expand(overrides, where))


def check_overrides(overrides: Mapping[str, Value], config: Config, where: str) -> None:
    """Checks overrides, or a point of a grid, against the configuration that they change.

    Raises:
        ComparisonError: If they set what the comparison sets, or put something else in the place of a section.
    """
    changes = expand(overrides, where)
    for key, instead in _OWN_KEYS.items():
        inner: Value = changes
        for part in key.split("."):
            if not isinstance(inner, dict) or part not in inner:
                break
            inner = inner[part]
        else:
            remedy = f"remove it and use {instead}" if instead else "remove it"
            raise ComparisonError(f"{where}: {key} is set by the comparison in every run; {remedy}")
    _check_sections(changes, config, where, "")


def _check_sections(changes: Config, config: Config, where: str, prefix: str) -> None:
    for name, value in changes.items():
        key = f"{prefix}{name}"
        below = config.get(name)
        if isinstance(value, dict):
            if isinstance(below, dict):
                _check_sections(value, below, where, f"{key}.")
            elif below is not None and "class_path" not in value:
                raise ComparisonError(f"{where}: {key} is {below!r}, which has no {next(iter(value), 'keys')!r} to set")
        elif key in _SECTIONS or (isinstance(below, dict) and not _replaces_a_class(value, below)):
            keys = ", ".join(below) if isinstance(below, dict) else "class_path, init_args"
            raise ComparisonError(f"{where}: {key} is a mapping, got {value!r}; set a key of it instead ({keys})")


def _replaces_a_class(value: Value, below: Config) -> bool:
    """Whether the value is the path of another class, or none, where a class was."""
    return value is None or (isinstance(value, str) and "class_path" in below)
