"""One run of a comparison, in the process that trains it."""

from __future__ import annotations

import platform
from collections.abc import Callable
from datetime import timedelta
from importlib.metadata import version
from pathlib import Path

import torch
from lightning.pytorch import Callback, LightningDataModule
from lightning.pytorch.callbacks import ModelCheckpoint
from lightning.pytorch.loggers import WandbLogger

import lightning_async
from lightning_async.cli.compare.configuration import ComparisonError, Config, merge
from lightning_async.cli.compare.continuing import Loading, drop_if_changed
from lightning_async.cli.compare.history import History, logical_time
from lightning_async.cli.compare.plan import Run
from lightning_async.cli.compare.results import CHECKPOINT, RunResult
from lightning_async.cli.compare.schema import Target, Wandb
from lightning_async.cli.compare.sources import imported_sources
from lightning_async.cli.training import TrainingCLI

_PARTS = ("pytorch-lightning_version", "state_dict", "optimizer_states", "lr_schedulers", "loops", "callbacks")


def execute(
    run: Run,
    folder: Path,
    *,
    checkpoint_every: float,
    report: Callable[[float], None],
    wandb: Wandb | None = None,
    wandb_group: str = "",
    wandb_name: str = "",
) -> RunResult:
    """Trains one run, and returns what it recorded.

    If it was interrupted it goes on from its checkpoint, unless its code has changed since it was begun.

    Args:
        run: The run.
        folder: Folder for its checkpoint and loggers.
        checkpoint_every: Seconds of wall time between two checkpoints.
        report: Called with the logical time now and then.
        wandb: Project for a Weights & Biases run, None for none.
        wandb_group: Group of that run.
        wandb_name: Name of that run.

    Returns:
        The result; an exception becomes a result of status `failed` with the traceback.

    Raises:
        ComparisonError: If validation does not log what the comparison watches, so that no other run can do better.
    """
    folder.mkdir(parents=True, exist_ok=True)
    watch = dict(zip(("target.metric", "loss"), run.watch, strict=True))
    history = History(watch, _target(run.stop), run.evaluate_every, report)
    loading, checkpoint = Loading(), None
    callbacks: list[Callback] = [loading, history, _periodic_checkpoint(folder, checkpoint_every)]
    logger = None if wandb is None else _wandb_logger(wandb, folder, run.key, wandb_group, wandb_name)
    result = RunResult("failed", versions=versions())
    try:
        if logger is not None:
            from lightning_async.callbacks import LogicalTimeMonitor

            callbacks.append(LogicalTimeMonitor())
        cli = TrainingCLI.from_config(merge(run.config, {"trainer": {"default_root_dir": str(folder)}}), callbacks)
        if logger is not None:
            cli.trainer.logger = logger
        result.data = data_name(cli.datamodule)
        # Objects take the place of their names as the configuration is read, and defaults and full names are added.
        sources = imported_sources({"given": run.config, "read": cli.config.as_dict()})
        drop_if_changed(folder, sources)
        checkpoint, weights_only = usable_checkpoint(folder)
        if checkpoint is None:
            sources.write(folder)
        cli.trainer.fit(cli.model, datamodule=cli.datamodule, ckpt_path=checkpoint, weights_only=weights_only)
        result.end_time = logical_time(cli.trainer)
        result.status = "diverged" if history.diverged else "finished"
        if not history.times:
            raise RuntimeError(
                "the run ended without a single evaluation: is there a validation loader, and is evaluate_every "
                "smaller than the budget?"
            )
    except ComparisonError:
        raise
    except Exception as error:
        result.status, result.error = "failed", loading.failure(error, checkpoint)
        result.end_time = history.times[-1] if history.times else 0.0
    finally:
        if logger is not None:
            import wandb as client

            client.finish()
    result.times, result.steps, result.train_loss = history.times, history.steps, history.train_loss
    result.metrics, result.counters, result.wall_seconds = history.metrics, history.counters, history.wall_seconds
    return result


def _target(content: Config | None) -> Target | None:
    return None if content is None else Target(**content)  # type: ignore[arg-type]


def _periodic_checkpoint(folder: Path, seconds: float) -> ModelCheckpoint:
    return ModelCheckpoint(
        dirpath=folder,
        filename=CHECKPOINT,
        train_time_interval=timedelta(seconds=seconds),
        save_top_k=1,
        enable_version_counter=False,
    )


def usable_checkpoint(folder: Path) -> tuple[Path | None, bool]:
    """Returns the checkpoint to go on from, None if there is none, and whether `weights_only` can load it."""
    path = folder / f"{CHECKPOINT}.ckpt"
    if not path.is_file():
        return None, True
    # Hyper-parameters may be objects of any class. This run has written the file, so that all of it can be loaded.
    for weights_only in (True, False):
        try:
            _check_parts(torch.load(path, weights_only=weights_only, map_location="cpu"))
            return path, weights_only
        except Exception as error:
            reason = error
    # Half a checkpoint, after a power cut say, or a file of something else is worth no more than none: the run starts
    # afresh.
    print(f"{path} cannot be read ({type(reason).__name__}: {reason}): it is removed, and the run starts afresh")
    path.unlink()
    return None, True


def _check_parts(content: object) -> None:
    missing = [part for part in _PARTS if not isinstance(content, dict) or part not in content]
    if missing:
        raise ValueError(f"it is no checkpoint of a run, for it has no {', '.join(missing)}")


def _wandb_logger(wandb: Wandb, folder: Path, key: str, group: str, name: str) -> WandbLogger:
    return WandbLogger(
        project=wandb.project,
        entity=wandb.entity,
        group=group,
        name=name,
        id=key,
        save_dir=folder,
        offline=wandb.offline,
        resume="allow",
        config=wandb.config,
    )


def data_name(datamodule: LightningDataModule | None) -> str:
    """Returns what the data are: the data module's `data_name`, or its class when it does not say."""
    if datamodule is None:
        return "the module's own loaders"
    named = getattr(datamodule, "data_name", None)
    return str(named) if named else f"{type(datamodule).__module__}.{type(datamodule).__qualname__} (no data_name)"


def versions() -> dict[str, str]:
    """Returns the versions that a result depends on."""
    return {
        "python": platform.python_version(),
        "lightning_async": lightning_async.__version__,
        **{package: version(package) for package in ("lightning", "torch", "numpy")},
    }


def discard_checkpoint(folder: Path) -> None:
    """Removes the checkpoint of a run whose result is stored."""
    (folder / f"{CHECKPOINT}.ckpt").unlink(missing_ok=True)
