"""One cell of a study that is to be measured, and how it is stored."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields

import torch

from lightning_async.cli.compare.configuration import fingerprint
from recipes.local_training.cells import Cell
from recipes.local_training.drift import Drift
from recipes.local_training.factorial import Factorial
from recipes.local_training.logistic import Setting
from recipes.local_training.tables import condition

__all__ = ["Task", "execute", "stored_cell"]


@dataclass(frozen=True)
class Task:
    """A cell that is to be measured.

    Args:
        study: whose it is.
        setting: how replicas are trained.
    """

    study: Factorial | Drift
    setting: Setting

    @property
    def key(self) -> str:
        """Hash of what determines the result; what other cells the study has is no part of it."""
        varied = {field.name for field in fields(Setting)}
        fixed = {name: value for name, value in asdict(self.study).items() if name not in varied}
        return fingerprint({"study": type(self.study).__name__, "setting": asdict(self.setting), **fixed})

    @property
    def name(self) -> str:
        """For people."""
        return f"{condition(self.setting)}, {self.setting.variant}, p = {self.setting.sparsity:g}"


def execute(task: Task) -> Cell:
    """Measure a cell."""
    torch.set_num_threads(1)
    return task.study.measure(task.setting)


def stored_cell(setting: dict[str, object], lr: float, values: list[float]) -> Cell:
    """A cell of what was stored of it."""
    return Cell(Setting(**setting), lr, tuple(values))  # type: ignore[arg-type]
