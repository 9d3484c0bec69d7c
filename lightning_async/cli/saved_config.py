"""The configuration of a run, saved where the run's own files are, and nowhere else."""

from __future__ import annotations

from pathlib import Path

from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.cli import SaveConfigCallback
from lightning.pytorch.loggers import CSVLogger, TensorBoardLogger, WandbLogger
from typing_extensions import override


class SaveConfig(SaveConfigCallback):
    """Saves the complete configuration in the folder of the run; a run without a logger has none, and saves nothing."""

    @override
    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        folder = run_folder(trainer)
        if self.already_saved or folder is None or not trainer.is_global_zero:
            return
        folder.mkdir(parents=True, exist_ok=True)
        self.parser.save(
            self.config, str(folder / self.config_filename), skip_none=False, overwrite=True, multifile=self.multifile
        )
        self.already_saved = True


def log_folder(trainer: Trainer) -> Path | None:
    """The folder that the first logger writes to: that of the run, but for Weights & Biases; None without one."""
    if trainer.loggers and isinstance(trainer.loggers[0], WandbLogger):
        folder = Path(trainer.loggers[0].experiment.dir).parent  # of the files that are sent along
        if not folder.is_dir():  # it is switched off
            return None
        return folder.relative_to(Path.cwd()) if folder.is_relative_to(Path.cwd()) else folder
    return run_folder(trainer)


def run_folder(trainer: Trainer) -> Path | None:
    """The folder that the first logger has for this run alone, beside whose files checkpoints are; None without one.

    `Trainer.log_dir` is the folder of all runs for loggers that have files elsewhere, as Weights & Biases.
    """
    if not trainer.loggers:
        return None
    logger = trainer.loggers[0]
    if isinstance(logger, (CSVLogger, TensorBoardLogger)):
        return Path(logger.log_dir)
    if isinstance(logger, WandbLogger):
        _ = logger.experiment  # before it is there, the run has no name
    if logger.save_dir is None or logger.version is None:
        return None
    version = logger.version if isinstance(logger.version, str) else f"version_{logger.version}"
    return Path(logger.save_dir) / str(logger.name) / version
