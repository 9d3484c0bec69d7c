"""What is checked, and said, when a run is resumed from a checkpoint."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, NoReturn, cast

from lightning.fabric.utilities.exceptions import MisconfigurationException
from lightning_utilities.core.rank_zero import rank_zero_warn

_INSTEAD = (
    "Resume from another checkpoint, or start a new run from the weights alone: load_from_checkpoint(path), and fit "
    "without ckpt_path."
)


def check_saved_run(state: Any, key: str) -> None:
    """Refuse a state that does not say which run it belongs to.

    Args:
        state: what the checkpoint holds under `key`.
        key: the name of the entry.

    Raises:
        MisconfigurationException: if it does not.
    """
    if not isinstance(state, Mapping) or not isinstance(state.get("run"), Mapping):
        _damaged(f"its entry {key!r} has no {'run'!r}")


def check_saved_state(state: Mapping[str, Any], key: str, engine: str, global_step: int) -> None:
    """Refuse a state that is not whole, or does not belong to the weights beside it.

    Args:
        state: what the checkpoint holds under `key`.
        key: the name of the entry.
        engine: the name of the part that holds the schedule.
        global_step: the Trainer's step in the checkpoint.

    Raises:
        MisconfigurationException: with what is missing or contradictory.
    """
    for part in (engine, "data"):
        if not isinstance(state.get(part), Mapping):
            _damaged(f"its entry {key!r} has no {part!r}")
    drawn = state.get("random_states")
    if drawn is not None and not (isinstance(drawn, Mapping) and {"torch", "python", "numpy"} <= set(drawn)):
        _damaged("the states of the random generators are not whole")
    completed, started_at = state[engine].get("completed"), state.get("started_at")
    if isinstance(completed, bool) or not isinstance(completed, int) or completed < 0:
        _damaged(f"the number of steps made must be an integer >= 0, and is {completed!r}")
    # A run that is interrupted right after a step is saved before the Trainer has counted that step.
    if completed > global_step + 1 or (started_at is not None and completed + started_at - global_step not in (0, 1)):
        begun = f", begun at step {started_at}," if started_at else ""
        _damaged(f"its schedule{begun} has made {completed} steps, and the Trainer is at step {global_step}")
    for shard, position in state["data"].items():
        pair = isinstance(position, (tuple, list)) and len(position) == 2
        if not isinstance(shard, int) or not pair or not all(isinstance(at, int) and at >= 0 for at in position):
            _damaged(f"the position in the data, {position!r} of stream {shard!r}, is none")


def load_engine(load: Callable[[dict[str, Any]], None], state: dict[str, Any]) -> None:
    """Load the state of a schedule.

    Raises:
        MisconfigurationException: if a part of it is missing, or does not belong to this run.
    """
    try:
        load(state)
    except KeyError as error:
        _damaged(f"its state has no {error}", error)
    except ValueError as error:
        raise MisconfigurationException(f"the checkpoint cannot be continued: {error}. {_INSTEAD}") from error


def _damaged(what: str, cause: Exception | None = None) -> NoReturn:
    raise MisconfigurationException(f"the checkpoint is damaged or was edited: {what}. {_INSTEAD}") from cause


def warn_if_changed(before: Mapping[str, int | None], now: Mapping[str, int | None]) -> None:
    """Warn if a resumed run reads other data than the checkpoint's: `batch_size` and the like, None if not known."""
    known = [key for key in now if before.get(key) is not None and now[key] is not None]
    if any(before[key] != now[key] for key in known):
        rank_zero_warn(
            f"the training data are not those of the checkpoint, which was written with "
            f"{', '.join(f'{key}={before[key]}' for key in known)}; now it is "
            f"{', '.join(f'{key}={now[key]}' for key in known)}. The run goes on from the same number of mini-batches, "
            f"but samples are repeated or left out. To continue exactly, resume with the same dataset, batch size and "
            f"owners of the samples."
        )


_NOT_RESUMABLE = "You're resuming from a checkpoint that ended before the epoch ended"


def ignore_not_resumable() -> Callable[[], None]:
    """Silence Lightning's warning about positions in the data, which it does not know to be kept; returns the undo."""
    warnings.filterwarnings("ignore", message=_NOT_RESUMABLE)
    filters = cast("list[Any]", warnings.filters)
    added = filters[0]

    def undo() -> None:
        with suppress(ValueError):
            filters.remove(added)

    return undo
