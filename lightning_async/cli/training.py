"""`lightning-async fit | validate | test`: LightningCLI with the names of this package."""

from __future__ import annotations

import argparse
import re
import sys
import traceback
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from lightning.fabric.utilities.exceptions import MisconfigurationException
from lightning.pytorch import Callback, Trainer
from lightning.pytorch.cli import LightningCLI
from typing_extensions import override

import lightning_async.methods  # noqa: F401  (makes short class names available)
from lightning_async.callbacks import LogicalTimeMonitor
from lightning_async.cli.closing import SayWhatIsLeft, say_how_it_ended
from lightning_async.cli.messages import innermost
from lightning_async.cli.nearest import nearest
from lightning_async.cli.saved_config import SaveConfig
from lightning_async.strategies.registry import REGISTERED
from lightning_async.strategies.scheduled import ScheduledStrategy

if TYPE_CHECKING:
    from lightning_async.cli.compare.configuration import Config


class TrainingCLI(LightningCLI):
    """Model, data, strategy, method, cluster, optimizer and logger, all by configuration.

    Example:
        `lightning-async fit --config configs/recipes/fashion_cnn.yaml --config configs/methods/clipped_asgd.yaml
        --trainer.max_steps=1000`
    """

    @staticmethod
    @override
    def subcommands() -> dict[str, set[str]]:
        return {name: skip for name, skip in LightningCLI.subcommands().items() if name != "predict"}

    @override
    def instantiate_classes(self) -> None:
        try:
            super().instantiate_classes()
            self._check_lr_scheduler()
        except ValueError as error:
            config = self.config.as_dict()
            short = innermost(error, config[self.subcommand] if self.subcommand else config)
            if short == str(error):
                raise
            raise ValueError(short) from error

    def _check_lr_scheduler(self) -> None:
        """Refuse a scheduler that the configuration gives to no optimizer, which would leave it out."""
        config = self.config.as_dict()
        config = config[self.subcommand] if self.subcommand else config
        if config.get("lr_scheduler") and not config.get("optimizer"):
            raise ValueError(
                "lr_scheduler is given without an optimizer that it could belong to: give optimizer as well, or have "
                "configure_optimizers of the module return the scheduler"
            )

    @override
    def instantiate_trainer(self, **kwargs: Any) -> Trainer:
        """The Trainer; on the command line it logs logical time wherever there is a simulated cluster."""
        trainer = super().instantiate_trainer(**kwargs)
        callbacks: list[Callback] = trainer.callbacks  # type: ignore[attr-defined]
        watched = any(isinstance(callback, LogicalTimeMonitor) for callback in callbacks)
        if self.subcommand is not None and isinstance(trainer.strategy, ScheduledStrategy) and not watched:
            callbacks.insert(0, LogicalTimeMonitor())
        if self.subcommand == "fit":
            callbacks.append(SayWhatIsLeft())
        return trainer

    def after_fit(self) -> None:
        """Say how training ended, and where the results are."""
        say_how_it_ended(self.trainer)

    @classmethod
    def from_config(cls, config: Config, callbacks: Sequence[Callback] = ()) -> TrainingCLI:
        """Builds trainer, model and data from a complete configuration, without running anything.

        Args:
            config: What a configuration file for `fit` holds.
            callbacks: Added to those of the configuration.

        Raises:
            argparse.ArgumentError: If the configuration does not parse.
        """
        with warnings.catch_warnings():
            _be_quiet()
            return cls(
                args=config,
                run=False,
                save_config_callback=None,
                trainer_defaults={"callbacks": list(callbacks)},
                seed_everything_default=False,
                parser_kwargs={"exit_on_error": False},
            )


def run_training_command(arguments: list[str]) -> None:
    """Runs `fit`, `validate` or `test`.

    Args:
        arguments: The command line after the program's name.
    """
    _be_quiet()
    try:
        TrainingCLI(
            args=arguments,
            save_config_callback=SaveConfig,
            parser_kwargs={
                "prog": "lightning-async",
                "description": "Train any LightningModule asynchronously on a simulated heterogeneous cluster.",
                "exit_on_error": False,
            },
        )
    except argparse.ArgumentError as error:
        _give_up(arguments, innermost(error, {}))
    except (ValueError, TypeError, MisconfigurationException, FileNotFoundError) as error:
        misnamed = re.search(r"invalid strategy name: `strategy='(\w+)'`", str(error))
        if misnamed is not None:
            _give_up(arguments, f"there is no strategy {misnamed[1]!r}; {nearest(misnamed[1], REGISTERED)}")
        if not _is_refusal(error):
            raise
        _give_up(arguments, str(error))


def _is_refusal(error: Exception) -> bool:
    """Whether an error is one of ours, or of Lightning's checks, whose message says all that there is to know."""
    if isinstance(error, MisconfigurationException):
        return True
    if isinstance(error, FileNotFoundError):
        return str(error).startswith("Checkpoint file not found")
    raised_in = [frame.f_globals.get("__name__", "") for frame, _ in traceback.walk_tb(error.__traceback__)]
    # While a class of ours is built, not in the middle of a run; or what is left of a message of the parser.
    building = any(name.startswith("jsonargparse") for name in raised_in) and raised_in[-1].startswith(
        "lightning_async."
    )
    return bool(building or raised_in[-1] == __name__)


def _give_up(arguments: list[str], reason: str) -> NoReturn:
    print(f"lightning-async {' '.join(arguments[:1])}: {reason}", file=sys.stderr)
    sys.exit(2)


def _be_quiet() -> None:
    """Leave out what Lightning says of the way in which it is called here, which is no concern of the user."""
    warnings.filterwarnings("ignore", message="LightningCLI's args parameter is intended")
