"""What `fit` says at its end, or when it is interrupted: how far it came, and where its files are."""

from __future__ import annotations

from lightning.pytorch import Callback, LightningModule, Trainer
from typing_extensions import override

from lightning_async.cli.saved_config import log_folder, run_folder
from lightning_async.strategies.scheduled import ScheduledStrategy


def say_how_it_ended(trainer: Trainer) -> None:
    """Print steps, logical time, what was measured last, and where the files are."""
    if not trainer.is_global_zero:
        return
    measured = [
        f"{name} {value.item():.4g}"
        for name, value in sorted(trainer.callback_metrics.items())
        if name != "logical_time"
    ]
    print("; ".join([_progress(trainer), *measured]))
    _say_where(trainer)


class SayWhatIsLeft(Callback):
    """Says how to go on when a fit is interrupted from the keyboard."""

    @override
    def on_exception(self, trainer: Trainer, pl_module: LightningModule, exception: BaseException) -> None:
        if not isinstance(exception, KeyboardInterrupt) or not trainer.is_global_zero:
            return
        print(f"Interrupted after {_progress(trainer)}")
        if _say_where(trainer):
            print("To go on from there, give the same command with --ckpt_path and that checkpoint")


def _progress(trainer: Trainer) -> str:
    steps = f"{trainer.global_step:,} steps"
    if isinstance(trainer.strategy, ScheduledStrategy):
        steps += f" in logical time {trainer.strategy.logical_time:.6g}"
    return steps


def _say_where(trainer: Trainer) -> str:
    """Print where the files are; returns the checkpoint, the best one if a metric is monitored."""
    callback = trainer.checkpoint_callback
    checkpoint = str(getattr(callback, "best_model_path", ""))
    missing = trainer.global_step - getattr(callback, "_last_global_step_saved", trainer.global_step)
    last = "step is" if missing == 1 else f"{missing:,} steps are"
    left = f" (the last {last} in none)" if missing > 0 else ""
    folder, log = run_folder(trainer), log_folder(trainer)
    config = folder / "config.yaml" if folder is not None and folder != log else None
    for name, place in (("Checkpoint", checkpoint), ("Configuration", config), ("Log", log)):
        if place:
            print(f"{name}: {place}{left if name == 'Checkpoint' else ''}")
    return checkpoint
