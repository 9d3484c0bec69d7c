"""Errors of mini-batch gradients, measured on a copy of the module so that nothing is disturbed."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from lightning.pytorch import LightningModule, Trainer
from torch import Tensor
from torch.utils.data import DataLoader

from lightning_async._compat import is_overridden
from lightning_async.callbacks.module_copy import copied
from lightning_async.callbacks.random_states import kept_states, random_generators
from lightning_async.data.minibatches import MiniBatches, Request
from lightning_async.data.seeding import seeded
from lightning_async.methods.gradient_norm import device_norm
from lightning_async.randomness import derived_seed


@dataclass(frozen=True)
class GradientErrors:
    """Errors of the gradients of mini-batches.

    Attributes:
        norms: Euclidean norm of every error that is finite, in the order of the mini-batches.
        gradient_norm: norm of the mean gradient, which the errors are distances to.
        nonfinite: mini-batches whose gradient was missing, NaN or infinite.
    """

    norms: npt.NDArray[np.float64]
    gradient_norm: float
    nonfinite: int


class SampledBatches:
    """Mini-batches of a loader's dataset that are drawn without the loader.

    Every pass yields the same ones if the generators that `owners` hold begin in the same states.

    Args:
        loader: where dataset and collate function are taken from; its sampler is not touched.
        indices: samples of every mini-batch.
        seed: seed of what the dataset draws at random.
    """

    def __init__(self, loader: DataLoader[Any], indices: Sequence[npt.NDArray[np.int64]], seed: int) -> None:
        self._loader = loader
        self._indices = indices
        self._seed = derived_seed(seed, "noise data")

    @property
    def owners(self) -> tuple[object, ...]:
        """Objects whose random generators advance as mini-batches are drawn."""
        return self._loader.dataset, self._loader.collate_fn

    def __iter__(self) -> Iterator[Any]:
        # Attributes that the dataset sets, such as counters, change in a copy only.
        dataset = copy.copy(self._loader.dataset)
        minibatches = MiniBatches(dataset, self._loader.collate_fn, batched=True, seed=self._seed)
        for number, rows in enumerate(self._indices):
            yield minibatches[Request((number,), rows.tolist())]


def draw_indices(
    shards: Sequence[npt.NDArray[np.int64]], batch_size: int, count: int, seed: int
) -> list[npt.NDArray[np.int64]]:
    """Samples of `count` mini-batches, each from one shard, shards uniformly at random.

    A shard is read in random order, to its end before any sample comes again.
    """
    rng = np.random.default_rng(seed)
    left = [rng.permutation(shard) for shard in shards]
    drawn = []
    for worker in rng.integers(len(shards), size=count):
        size = min(batch_size, len(shards[worker]))
        if len(left[worker]) < size:
            left[worker] = rng.permutation(shards[worker])
        drawn.append(left[worker][:size])
        left[worker] = left[worker][size:]
    return drawn


def gradient_errors(trainer: Trainer, module: LightningModule, batches: SampledBatches, seed: int) -> GradientErrors:
    """Distances of mini-batch gradients to their mean.

    Forward and backward run on a copy of the module, twice for every mini-batch: once for the mean, once for the
    distances. Logging is switched off in the copy. All random states are put back.

    Args:
        trainer: of a fit that is running.
        module: is not changed.
        batches: the mini-batches.
        seed: seed of what the module draws at random (dropout), by mini-batch.

    Raises:
        MisconfigurationException: if the module cannot be copied.
    """
    device = trainer.strategy.root_device
    with seeded(seed), _device_randomness(device), torch.inference_mode(False), torch.enable_grad():
        twin = copied(module)
        evaluate = _Evaluation(trainer, twin, seed)
        # The copy shares a generator of its class, or in a function that it holds, with the module.
        owners = (*batches.owners, twin, getattr(trainer, "datamodule", None))
        generators = random_generators(owners, ignore=[trainer])
        mean: list[Tensor] | None = None
        used = 0
        with kept_states(generators):
            for number, batch in enumerate(batches):
                gradient = evaluate(batch, number)
                if gradient is None or not torch.isfinite(device_norm(gradient)):
                    continue
                used += 1
                if mean is None:
                    mean = gradient
                else:
                    torch._foreach_add_(mean, torch._foreach_sub(gradient, mean), alpha=1.0 / used)
        norms: list[float] = []
        total = 0
        with kept_states(generators):
            for number, batch in enumerate(batches):
                total += 1
                gradient = evaluate(batch, number)
                if mean is None or gradient is None or not torch.isfinite(device_norm(gradient)):
                    continue
                norms.append(device_norm(torch._foreach_sub(gradient, mean)).item())
    gradient_norm = float("nan") if mean is None else device_norm(mean).item()
    return GradientErrors(np.array(norms, dtype=np.float64), gradient_norm, total - len(norms))


class _Evaluation:
    """Gradients of a copied module, as the Trainer would compute them."""

    def __init__(self, trainer: Trainer, module: LightningModule, seed: int) -> None:
        self._trainer = trainer
        self._module = module
        self._seed = seed
        self._takes_index = len(inspect.signature(module.training_step).parameters) > 1
        self._parameters = [p for p in module.parameters() if p.requires_grad]
        module.trainer = trainer
        for part in module.modules():
            if isinstance(part, LightningModule):
                for name in ("log", "log_dict"):
                    part.__dict__[name] = _ignore

    def __call__(self, batch: Any, number: int) -> list[Tensor] | None:
        """The gradient of a mini-batch; None if `training_step` returned None."""
        trainer, module = self._trainer, self._module
        batch = trainer.precision_plugin.convert_input(batch)
        batch = self._hooks("on_before_batch_transfer").on_before_batch_transfer(batch, 0)
        device = trainer.strategy.root_device
        batch = self._hooks("transfer_batch_to_device").transfer_batch_to_device(batch, device, 0)
        batch = self._hooks("on_after_batch_transfer").on_after_batch_transfer(batch, 0)
        for p in self._parameters:
            p.grad = None
        derived = derived_seed(self._seed, "noise step", number)
        _seed_device(device, derived)
        with seeded(derived), trainer.precision_plugin.train_step_context():
            output = module.training_step(batch, number) if self._takes_index else module.training_step(batch)
            loss = output["loss"] if isinstance(output, Mapping) else output
        if loss is None:
            return None
        loss.backward()
        gradient = [torch.zeros_like(p) if p.grad is None else p.grad.detach() for p in self._parameters]
        return [g.to_dense() if g.is_sparse else g for g in gradient]

    def _hooks(self, name: str) -> Any:
        """Whose hook the Trainer would call: the data module's, if it has one."""
        data = getattr(self._trainer, "datamodule", None)
        return data if data is not None and is_overridden(name, data) else self._module


def _seed_device(device: torch.device, seed: int) -> None:
    # Not torch.manual_seed, which takes milliseconds on a machine without the device that it was built for.
    if device.type == "cuda":
        torch.cuda.default_generators[device.index or 0].manual_seed(seed)
    elif device.type == "mps":
        torch.mps.manual_seed(seed)


@contextmanager
def _device_randomness(device: torch.device) -> Iterator[None]:
    """Put the random state of the device back on the way out."""
    if device.type not in ("cuda", "mps"):
        yield
        return
    state = torch.cuda.get_rng_state(device) if device.type == "cuda" else torch.mps.get_rng_state()
    try:
        yield
    finally:
        if device.type == "cuda":
            torch.cuda.set_rng_state(state, device)
        else:
            torch.mps.set_rng_state(state)


def _ignore(*args: Any, **kwargs: Any) -> None:
    """Take the place of `log`."""
