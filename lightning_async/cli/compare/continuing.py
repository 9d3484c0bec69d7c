"""Interrupted runs: whether they go on from their checkpoint, and what is said if they cannot."""

from __future__ import annotations

import traceback
from pathlib import Path

from lightning.pytorch import Callback, LightningModule, Trainer
from typing_extensions import override

from lightning_async.cli.compare.results import CHECKPOINT
from lightning_async.cli.compare.sources import Sources


class Loading(Callback):
    """Knows whether a run is still on its way from its checkpoint to its first step."""

    def __init__(self) -> None:
        self._at_work = False

    @override
    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        # The data are there, and the checkpoint is next.
        self._at_work = True

    @override
    def on_train_batch_start(self, trainer: Trainer, pl_module: LightningModule, batch: object, batch_idx: int) -> None:
        self._at_work = False

    @override
    def on_validation_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._at_work = False

    def failure(self, error: Exception, checkpoint: Path | None) -> str:
        """Returns the traceback of what ended the run, whose last line says all that has to be known.

        Args:
            error: What was raised.
            checkpoint: What the run went on from, None if it was begun.
        """
        text = "".join(traceback.format_exception(error))
        message = one_line(error)
        if self._at_work and checkpoint is not None:
            return (
                f"{text}The run was interrupted before, and could not go on from {checkpoint} (delete it to begin the "
                f"run anew): {message}"
            )
        return text if text.rstrip().endswith(f"\n{message}") else text + message


def one_line(error: BaseException) -> str:
    r"""Returns type and message of an exception in a line, without what comes after the second line of the message.

    Example:
        >>> one_line(RuntimeError("Errors:\n\tsize mismatch"))
        'RuntimeError: Errors: size mismatch'
    """
    lines = [" ".join(line.split()) for line in "".join(traceback.format_exception_only(error)).splitlines()]
    told = [line for line in lines if line]
    return " ".join(told[:2]) + (" ..." if len(told) > 2 else "")


def drop_if_changed(folder: Path, now: Sources) -> None:
    """Removes the checkpoint of a run whose code is no longer what it was begun with.

    Args:
        folder: Folder of the run.
        now: The code that the run would go on with.
    """
    path = folder / f"{CHECKPOINT}.ckpt"
    before = Sources.read(folder)
    if before is not None and before.differences(now) and path.is_file():
        print(f"code has changed since this run was begun: {path} is removed, and the run starts afresh")
        path.unlink()
