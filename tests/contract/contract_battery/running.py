"""Quiet Trainers, and what a run leaves behind, compared bit for bit."""

from typing import Any

import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.loggers.logger import Logger

from lightning_async.simulation import FixedTimes, Link, SimulatedCluster
from lightning_async.strategies import LocalSGDStrategy
from lightning_async.strategies.scheduled import ScheduledStrategy

UNEVEN = (1.0, 1.5, 2.3, 4.0)
"""Times of four workers; at 4.0 two of them finish at the same instant."""


LATENCY = 2.0


def uneven_cluster() -> SimulatedCluster:
    return SimulatedCluster(FixedTimes(list(UNEVEN)))


def cluster_with_latency() -> SimulatedCluster:
    """For replicas: while a message travels, the two fastest workers make a step or two."""
    return SimulatedCluster(FixedTimes(list(UNEVEN)), Link(latency=LATENCY))


class MemoryLogger(Logger):
    """Keeps what is logged."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: list[tuple[int, dict[str, float]]] = []

    @property
    def name(self) -> str:
        return "memory"

    @property
    def version(self) -> str:
        return "0"

    def log_hyperparams(self, *args: Any, **kwargs: Any) -> None:
        """There is nothing to do."""

    def log_metrics(self, metrics: dict[str, float], step: int | None = None) -> None:
        self.rows.append((step, {key: value for key, value in metrics.items() if key != "epoch"}))

    def values(self, name: str) -> list[float]:
        return [row[name] for _, row in self.rows if name in row]


class Journal(Callback):
    """Per step: its loss and its events. Per validation: its metrics."""

    def __init__(self) -> None:
        self.steps: dict[int, Any] = {}
        self.validations: dict[int, dict[str, float]] = {}

    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx) -> None:
        step = getattr(trainer.strategy, "last_step", None)
        loss = outputs["loss"].item() if outputs else None
        self.steps[trainer.global_step] = (loss, step)

    def on_validation_end(self, trainer, pl_module) -> None:
        if not trainer.sanity_checking:
            metrics = {key: value.item() for key, value in trainer.callback_metrics.items() if "val" in key}
            self.validations[trainer.global_step] = metrics


def quiet(**arguments: Any) -> Trainer:
    """A Trainer that shows and writes nothing it is not asked for."""
    silent = {
        "accelerator": "cpu",
        "devices": 1,
        "logger": False,
        "enable_checkpointing": False,
        "enable_progress_bar": False,
        "enable_model_summary": False,
        "num_sanity_val_steps": 0,
        "log_every_n_steps": 1,
    }
    if "max_steps" in arguments:
        silent["max_epochs"] = -1
    return Trainer(**{**silent, **arguments})


def outcome(trainer: Trainer) -> dict[str, Any]:
    """Parameters, buffers, optimizer, schedulers, counters, logical time."""
    module: LightningModule = trainer.lightning_module
    result = {
        "module": {key: value.clone() for key, value in module.state_dict().items()},
        "optimizer": [optimizer.state_dict() for optimizer in trainer.optimizers],
        "schedulers": [config.scheduler.state_dict() for config in trainer.lr_scheduler_configs],
        "global_step": trainer.global_step,
    }
    if isinstance(trainer.strategy, ScheduledStrategy):
        result |= progress(trainer.strategy)
    return result


def progress(strategy: ScheduledStrategy) -> dict[str, Any]:
    """How far the strategy has come: counters, logical time, replicas."""
    if isinstance(strategy, LocalSGDStrategy):
        local = strategy.local
        return {
            "progress": (local.logical_time, local.completed, 0, local.nonfinite),
            "replicas": strategy.replicas.clone(),
        }
    server = strategy.server
    return {"progress": (server.logical_time, server.completed, server.discarded, server.nonfinite)}


def differences(one: Any, other: Any, path: str = "") -> list[str]:
    """Where two results differ, to the last bit; empty if nowhere."""
    if isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor):
        same = one.shape == other.shape and one.dtype == other.dtype and torch.equal(one, other)
        return [] if same else [path]
    if isinstance(one, dict) and isinstance(other, dict):
        if one.keys() != other.keys():
            return [f"{path}: keys {sorted(map(str, one.keys() ^ other.keys()))}"]
        return [found for key in one for found in differences(one[key], other[key], f"{path}/{key}")]
    if isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)):
        if len(one) != len(other):
            return [f"{path}: lengths {len(one)}, {len(other)}"]
        return [
            found for i, pair in enumerate(zip(one, other, strict=True)) for found in differences(*pair, f"{path}/{i}")
        ]
    return [] if type(one) is type(other) and one == other else [f"{path}: {one!r}, {other!r}"]
