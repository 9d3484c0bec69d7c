"""What the strategies that simulate several workers on one device have in common."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from lightning.fabric.utilities.exceptions import MisconfigurationException
from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.accelerators import Accelerator
from lightning.pytorch.core.hooks import DataHooks
from lightning.pytorch.plugins import CheckpointIO, Precision, TorchCheckpointIO
from lightning.pytorch.strategies import SingleDeviceStrategy
from lightning.pytorch.utilities.types import LRSchedulerConfig
from torch import Tensor
from torch.optim import Optimizer
from typing_extensions import override

from lightning_async._compat import forget_training_loader, has_batch_hooks, owners_of_batch_hooks, use_device
from lightning_async.arguments import random_seed
from lightning_async.data import Partition
from lightning_async.data.orders import Position
from lightning_async.data.seeding import seeded
from lightning_async.data.step_loader import StepLoader
from lightning_async.methods import Method
from lightning_async.methods.replica_method import ReplicaMethod
from lightning_async.randomness import derived_seed
from lightning_async.simulation import SimulatedCluster, Step
from lightning_async.strategies.checks import check_optimized
from lightning_async.strategies.optimizer_choice import OptimizerChoice


class SimulatedStrategy(SingleDeviceStrategy):
    """One device that plays all workers of a cluster.

    Args:
        method: the algorithm.
        cluster: the simulated workers.
        optimizer: what replaces the module's own optimizer and schedulers, if anything does.
        partition: how the training data are split over the workers; None if all draw from one stream.
        seed: seed of the order of the data and of the randomness inside jobs, >= 0.

    Raises:
        TypeError: if an argument is of the wrong kind.
        ValueError: if the seed is negative.
    """

    def __init__(
        self,
        method: Method | ReplicaMethod,
        cluster: SimulatedCluster,
        optimizer: OptimizerChoice,
        partition: Partition | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__()
        if not isinstance(cluster, SimulatedCluster):
            raise TypeError(f"cluster must be a SimulatedCluster(times, link, seed), got {cluster!r}")
        if partition is not None and not isinstance(partition, Partition):
            raise TypeError(f"partition must be a Partition such as Dirichlet(alpha=0.5), or None, got {partition!r}")
        self.method = method
        self.cluster = cluster
        self.partition = partition
        self.seed = random_seed(seed)
        self._optimizer_choice = optimizer
        self._unused: dict[str, Any] | None = None
        self._played_on: Accelerator | None = None
        self._precision: Precision | None = None
        self._files: CheckpointIO | None = None
        self._step_loader: StepLoader | None = None
        self._one_batch = True  # a step has exactly one
        self._hooks: tuple[DataHooks, ...] = ()
        self._resume_at: tuple[int, dict[int, Position]] | None = None

    def __getstate__(self) -> dict[str, Any]:
        # A copy is as the strategy was before its first Trainer: a run has iterators, which cannot be copied.
        return dict(self.__dict__ if self._unused is None else self._unused)

    # What a Trainer sets is no choice of the user's: Lightning looks for such choices in the strategy that it is given,
    # and would hold what the first Trainer has set against the second one.

    @property
    @override
    def accelerator(self) -> Accelerator | None:
        return self._played_on

    @accelerator.setter
    def accelerator(self, accelerator: Accelerator | None) -> None:
        if self._unused is None:
            self._unused = dict(self.__dict__)
        self._played_on = accelerator
        self._files = None  # a Trainer begins with the accelerator, and sets its checkpoint plugin only if it has one

    @property
    @override
    def precision_plugin(self) -> Precision:
        return self._precision if self._precision is not None else Precision()

    @precision_plugin.setter
    def precision_plugin(self, precision_plugin: Precision | None) -> None:
        self._precision = precision_plugin

    @property
    @override
    def checkpoint_io(self) -> CheckpointIO:
        if self._files is None:
            self._files = TorchCheckpointIO()
        elif hasattr(self._files, "checkpoint_io"):  # one that wraps another, such as AsyncCheckpointIO
            self._files.checkpoint_io = TorchCheckpointIO()
        return self._files

    @checkpoint_io.setter
    def checkpoint_io(self, io: CheckpointIO | None) -> None:
        self._files = io

    @property
    def parallel_devices(self) -> Sequence[torch.device]:
        """Empty, so that every Trainer sets its device anew; the device in use is `root_device`."""
        return []

    @parallel_devices.setter
    def parallel_devices(self, devices: Sequence[torch.device]) -> None:
        if len(devices) > 1:
            raise MisconfigurationException(
                f"{type(self).__name__} simulates all workers on one device, but the Trainer was given {len(devices)}. "
                f"Use Trainer(devices=1); the number of workers belongs to the cluster, for example "
                f"TwoSpeedTimes(num_workers=16, slowdown=4.0)."
            )
        use_device(self, devices[0] if devices else torch.device("cpu"))

    @override
    def setup_optimizers(self, trainer: Trainer) -> None:
        self.optimizers, self.lr_scheduler_configs = self.make_optimizers(self._module)

    def make_optimizers(self, module: LightningModule) -> tuple[list[Optimizer], list[LRSchedulerConfig]]:
        """The one optimizer of a run of the module, in a list as Lightning has it, and its schedulers.

        Raises:
            MisconfigurationException: with what to do instead, if the module and the strategy make none, several, or
                one that cannot train the module.
        """
        optimizers, schedulers = self._optimizer_choice.configure(module)
        check_optimized(optimizers[0], module)
        return optimizers, schedulers

    @override
    def process_dataloader(self, dataloader: Any) -> Any:
        """Wrap the training loader; others pass. Called again whenever loaders are reloaded."""
        trainer = self._module.trainer
        if not trainer.training:
            return dataloader
        loader = StepLoader(
            dataloader,
            seed=self.seed,
            jobs_per_step=self._batches_per_step(),
            schedule=self._new_schedule,
            partition=self.partition,
            num_workers=self._num_shards(),
            max_steps_per_epoch=_epoch_limit(trainer, dataloader, self._batches_per_step() or 1),
        )
        if self._step_loader is not None:
            loader.seek(self._step_loader.completed, self._step_loader.positions)
        elif self._resume_at is not None:
            loader.seek(*self._resume_at)
        self._step_loader, self._resume_at = loader, None
        self._one_batch = self._batches_per_step() == 1
        return loader

    def _start_data(self, completed: int = 0, positions: Mapping[int, tuple[int, int]] | None = None) -> None:
        """Read the data from where a run was after `completed` steps; the training loader is made after this."""
        self._step_loader = None
        self._resume_at = completed, {shard: Position(*at) for shard, at in (positions or {}).items()}
        forget_training_loader(self._module.trainer)

    @override
    def on_train_start(self) -> None:
        loader = self._module.trainer.train_dataloader
        if not isinstance(loader, StepLoader):
            raise MisconfigurationException(
                f"there are several training loaders ({type(loader).__name__}), but a job takes one mini-batch of one. "
                f"Return a single DataLoader, for example over a dataset whose samples hold all parts."
            )
        self._hooks = owners_of_batch_hooks(self._module.trainer, self._module)

    @override
    def teardown(self) -> None:
        self._hooks = ()
        super().teardown()

    @override
    def batch_to_device(self, batch: Any, device: torch.device | None = None, dataloader_idx: int = 0) -> Any:
        """Move a batch to the device; of a step with several mini-batches, each of them by itself."""
        if not self._one_batch and self._module.trainer.training:
            return [self._moved(part, device, dataloader_idx, position) for position, part in enumerate(batch)]
        return self._moved(batch, device, dataloader_idx)

    def _moved(self, batch: Any, device: torch.device | None, dataloader_idx: int, position: int = 0) -> Any:
        if self._hooks and not any(map(has_batch_hooks, self._hooks)):
            # On the CPU a batch is where it is needed, and Lightning's way to see that takes longer.
            if self.root_device.type == "cpu" and _is_on_cpu(batch):
                return batch
        elif self._step_loader is not None and self._module.trainer.training:
            with seeded(derived_seed(self.seed, "transfer", self._step_loader.completed, position)):
                return super().batch_to_device(batch, device, dataloader_idx)
        return super().batch_to_device(batch, device, dataloader_idx)

    @property
    def _module(self) -> LightningModule:
        if self.lightning_module is None:
            raise RuntimeError("the strategy is not connected to a module yet")
        return self.lightning_module

    def _batches_per_step(self) -> int | None:
        """Mini-batches of every step; None if that varies."""
        return self.method.jobs_per_step(self.cluster.num_workers)

    def _num_shards(self) -> int:
        """Owners of the data, if they are split."""
        return self.cluster.num_workers

    @abstractmethod
    def _new_schedule(self) -> Iterator[Step]:
        """The schedule of the run, from its first step."""

    def _fingerprint(self) -> dict[str, Any]:
        """What a checkpoint must agree with to be continued."""
        return {
            "method": repr(self.method),
            "cluster": repr(self.cluster),
            "partition": repr(self.partition),
            "seed": self.seed,
        }

    def _check_fingerprint(self, saved: Mapping[str, Any]) -> None:
        for key, value in self._fingerprint().items():
            if saved.get(key) != value:
                raise MisconfigurationException(
                    f"the checkpoint was written with {key} = {saved.get(key)}, this run has {value}: its schedule "
                    f"would be another one. Resume with the same {key}, or start a new run from the weights alone: "
                    f"{type(self._module).__name__}.load_from_checkpoint(path), and fit without ckpt_path."
                )


def trainable(optimizer: Optimizer) -> list[Tensor]:
    """The optimizer's parameters, in its order."""
    return [p for group in optimizer.param_groups for p in group["params"]]


def _is_on_cpu(batch: Any) -> bool:
    """Whether a batch is a tensor or a flat collection of tensors, all on the CPU; no for anything else."""
    kind = type(batch)
    for part in batch if kind in (list, tuple) else batch.values() if kind is dict else (batch,):
        if type(part) is not Tensor or not part.is_cpu:
            return False
    return True


def _epoch_limit(trainer: Trainer, loader: Any, jobs_per_step: int) -> int | None:
    """Steps in an epoch that `limit_train_batches` cuts short; None if it does not."""
    limit = trainer.limit_train_batches
    if isinstance(limit, int):
        return limit
    if limit is None or limit >= 1.0:
        return None
    try:
        batches = len(loader)
    except TypeError:
        return None  # Lightning refuses a fraction of a length that is not known, and says so
    return int(max(1, batches // jobs_per_step) * limit)
