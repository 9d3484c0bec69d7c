"""What a checkpoint leaves to be done of its batch and its epoch; a resumed run begins with that.

A checkpoint is written in a hook, and Lightning does more between that hook and the next batch: it validates, updates
`ReduceLROnPlateau`, ends the epoch. When it resumes, it leaves part of that out, and it does not keep what `self.log`
was given. Private names of Lightning are used as in `_compat`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from lightning.pytorch import Trainer
from lightning.pytorch.trainer.states import TrainerFn
from lightning_utilities.core.rank_zero import rank_zero_warn
from torch import Tensor
from torchmetrics import Metric

_BATCH, _VALIDATION, _EPOCH = "on_train_batch_end", "on_validation_end", "on_train_epoch_end"

_REDUCTIONS = {
    "torch.mean": torch.mean,
    "torch.sum": torch.sum,
    "torch.min": torch.min,
    "torch.max": torch.max,
    "sum": sum,
    "min": min,
    "max": max,
}


@dataclass
class Unfinished:
    """What a run has not done yet when a checkpoint is written, and the logged values that it does it with.

    Args:
        hook: the hook in which the checkpoint is written, if something follows it before the next batch.
        metrics: what callbacks and schedulers see as `trainer.callback_metrics`.
        epoch: what `self.log` has collected for the means of the epoch.
        objects: the states of the module's metric objects, by their names.
        seen: validation batches that have been logged one by one, for each loader.
    """

    hook: str | None
    metrics: dict[str, Tensor] = field(default_factory=dict)
    epoch: list[dict[str, Any]] = field(default_factory=list)
    objects: dict[str, dict[str, Any]] = field(default_factory=dict)
    seen: dict[int, int] = field(default_factory=dict)

    @classmethod
    def at(cls, trainer: Trainer) -> Unfinished:
        """Where a trainer is now."""
        loop = trainer.fit_loop.epoch_loop
        # Lightning resets those that only validation logs before they are used again.
        reset = _logged(loop.val_loop._results) - _logged(loop._results)
        named = trainer.lightning_module.named_modules()
        objects = {name: _state_of(m) for name, m in named if isinstance(m, Metric) and id(m) not in reset}
        return cls(
            _hook(trainer),
            {key: value.detach().cpu() for key, value in _callback_metrics(trainer).items()},
            _collected(loop._results.values()),
            objects,
            dict(loop.val_loop._seen_batches_per_dataloader),
        )

    @property
    def after_batch(self) -> bool:
        """Whether a validation may follow, as Lightning's intervals or a callback have it."""
        return self.hook == _BATCH

    def state_dict(self) -> dict[str, Any]:
        """For a checkpoint; of plain values and tensors only."""
        return dict(vars(self))

    @classmethod
    def load(cls, state: dict[str, Any] | None, trainer: Trainer) -> Unfinished | None:
        """Of a checkpoint whose loops have just been loaded: they stand where they stood; None if it does not say."""
        if state is not None:
            unfinished = cls(**state)
            unfinished._prepare(trainer)
            return unfinished
        if any(config.reduce_on_plateau for config in trainer.lr_scheduler_configs):
            rank_zero_warn(
                "the checkpoint does not hold logged metrics: an earlier version wrote it. ReduceLROnPlateau misses "
                "the update at the end of the current epoch, or of the step after which the checkpoint was written. To "
                "train as if the run had not been interrupted, begin it again."
            )
        return None

    def then(self, now: Unfinished) -> Unfinished:
        """What is left while a resumed run has not begun with it, such as after a validation in `on_train_start`."""
        validated = self.hook == _BATCH and now.hook == _VALIDATION
        return replace(
            self, hook=now.hook if validated else self.hook, metrics={**self.metrics, **now.metrics}, seen=now.seen
        )

    def _prepare(self, trainer: Trainer) -> None:
        loop = trainer.fit_loop
        if self.hook == _BATCH:
            loop.epoch_loop.batch_progress.increment_completed()
        if self.hook == _EPOCH:
            for progress in (loop.epoch_progress.total, loop.epoch_progress.current):
                progress.processed -= 1  # type: ignore[attr-defined]
            loop.restarting = True  # which depends on the progress

    def ends_epoch(self, trainer: Trainer) -> bool:
        """Whether the loop begins with an epoch of which all batches are done."""
        return self.hook in (_BATCH, _VALIDATION) and trainer.fit_loop.epoch_loop._num_ready_batches_reached()

    def resume(self, trainer: Trainer) -> None:
        """Before the first batch: give back the logged values, and let what is left be done, once."""
        connector, loop = trainer._logger_connector, trainer.fit_loop
        loop._restarting = False  # for all of the epoch Lightning would update no ReduceLROnPlateau
        device = trainer.strategy.root_device
        saved = {key: value.to(device) for key, value in self.metrics.items()}
        connector._callback_metrics = {**saved, **connector._callback_metrics}
        loop.epoch_loop._results.reset()  # of what a hook logs again as the run begins
        for entry in self.epoch:
            _collect(trainer, entry)
        loop.epoch_loop.val_loop._seen_batches_per_dataloader.update(self.seen)
        for name, metric in trainer.lightning_module.named_modules():
            if isinstance(metric, Metric) and name in self.objects:
                _restore(metric, self.objects[name], device)
        if self.epoch:
            connector._first_loop_iter = False  # the next batch is not the first one, which forgets what it finds
        if self.hook in (_BATCH, _VALIDATION):
            _begin_after_batch(trainer, validated=self.hook == _VALIDATION)
        if self.hook == _EPOCH:
            _end_epoch(trainer)


def train_every_batch(trainer: Trainer) -> None:
    """Take back that a resumed run begins after a batch, if its fit ended before it began."""
    trainer.fit_loop.epoch_loop.__dict__.pop("advance", None)


def _hook(trainer: Trainer) -> str | None:
    hook = trainer.lightning_module._current_fx_name
    loop = trainer.fit_loop
    epoch, batch = loop.epoch_progress.current, loop.epoch_loop.batch_progress.current
    if trainer.state.fn != TrainerFn.FITTING or trainer.sanity_checking or batch.ready == 0:
        return None
    started, processed = epoch.started, epoch.processed  # type: ignore[attr-defined]
    within = processed < started
    ended = processed == started == epoch.completed + 1 and loop.epoch_loop._num_ready_batches_reached()
    return hook if (hook in (_BATCH, _VALIDATION) and within) or (hook == _EPOCH and ended) else None


def _begin_after_batch(trainer: Trainer, validated: bool) -> None:
    """Let the loop begin with what follows a batch: its logs, a validation if it is due, the end of the epoch."""
    loop = trainer.fit_loop.epoch_loop
    loop._skip_next_val = validated
    loop.val_loop.restarting = False
    loop.val_loop._has_run = False

    def batch_was_trained(data_fetcher: Any) -> None:
        train_every_batch(trainer)
        if not validated and trainer._logger_connector._first_loop_iter is not None:
            trainer._logger_connector.update_train_step_metrics()

    loop.advance = batch_was_trained  # type: ignore[method-assign]


def _end_epoch(trainer: Trainer) -> None:
    """What Lightning does after `on_train_epoch_end`; the next epoch begins as if nothing had happened."""
    connector, loop = trainer._logger_connector, trainer.fit_loop
    connector.epoch_end_reached()
    connector.on_epoch_end()
    loop.epoch_loop.update_lr_schedulers("epoch", update_plateau_schedulers=True)
    loop.epoch_loop._batches_that_stepped -= 1  # the step under which the epoch is logged
    connector.update_train_epoch_metrics()
    loop.epoch_loop._batches_that_stepped += 1
    loop.epoch_progress.increment_processed()
    loop.epoch_progress.increment_completed()
    loop.reset_restart_stage()
    loop.epoch_loop.reset_restart_stage()
    loop.epoch_loop.restarting = False


def _collected(results: Iterable[Any]) -> list[dict[str, Any]]:
    """Everything that has been logged in this epoch, with the arguments of `self.log`."""
    entries = []
    for result in results:
        meta = result.meta
        if result.has_reset or meta.sync._group is not None:  # a process group is of one process, and is compared
            continue
        entry = {
            "fx": meta.fx,
            "name": meta.name,
            "prog_bar": meta.prog_bar,
            "logger": meta.logger,
            "on_step": meta.on_step,
            "on_epoch": meta.on_epoch,
            "reduce_fx": next(name for name, function in _REDUCTIONS.items() if function is meta.reduce_fx),
            "enable_graph": meta.enable_graph,
            "add_dataloader_idx": meta.add_dataloader_idx,
            "sync_dist": meta.sync.should,
            "rank_zero_only": meta.sync.rank_zero_only,
            "metric_attribute": meta.metric_attribute,
        }
        state = {name: _detached(getattr(result, name)) for name in result._defaults} if result.is_tensor else None
        entries.append({"arguments": entry, "state": state, "last": _detached(result._forward_cache)})
    return entries


def _collect(trainer: Trainer, entry: dict[str, Any]) -> None:
    """Let a value have been logged, as `_collected` found it."""
    results, device = trainer.fit_loop.epoch_loop._results, trainer.strategy.root_device
    arguments = {**entry["arguments"], "reduce_fx": _REDUCTIONS[entry["arguments"]["reduce_fx"]]}
    value: Any = torch.zeros((), device=device)
    if entry["state"] is None:
        value = dict(trainer.lightning_module.named_modules()).get(arguments["metric_attribute"])
        if not isinstance(value, Metric):
            return  # it is no part of the module, so that its state is not kept either
    results.log(value=value, batch_size=1, sync_dist_fn=trainer.strategy.reduce, **arguments)
    result = results[f"{arguments['fx']}.{arguments['name']}"]
    for name, state in (entry["state"] or {}).items():
        setattr(result, name, _moved(state, device))
    result._update_count = max(result._update_count, 1)
    result._computed, result._forward_cache = None, _moved(entry["last"], device)


def _callback_metrics(trainer: Trainer) -> dict[str, Tensor]:
    """`trainer.callback_metrics`; those known before if one cannot be computed, which must not keep from saving."""
    try:
        return dict(trainer.callback_metrics)
    except Exception:
        return dict(trainer._logger_connector._callback_metrics)


def _logged(results: dict[str, Any]) -> set[int]:
    return {id(result.value) for result in results.values() if not result.is_tensor}


def _state_of(metric: Metric) -> dict[str, Any]:
    """What a metric object has seen: its states, and the numbers that it counts in."""
    plain = {name: value for name, value in vars(metric).items() if type(value) in (int, float, bool)}
    plain.pop("training")
    states = {name: _detached(getattr(metric, name)) for name in metric._defaults}
    return {"states": states, "plain": plain}


def _restore(metric: Metric, state: dict[str, Any], device: torch.device) -> None:
    for name, value in state["states"].items():
        setattr(metric, name, _moved(value, device))
    for name, value in state["plain"].items():
        setattr(metric, name, value)
    metric._computed = None


def _detached(value: Any) -> Any:
    if isinstance(value, list):
        return [_detached(one) for one in value]
    return value.detach().cpu() if isinstance(value, Tensor) else value


def _moved(value: Any, device: torch.device) -> Any:
    if isinstance(value, list):
        return [_moved(one, device) for one in value]
    return value.to(device) if isinstance(value, Tensor) else value
