"""What is refused, before training starts, with the remedy in the message."""

import pytest
import torch
from contract_battery.classifier import Classifier
from contract_battery.images import loader
from contract_battery.running import cluster_with_latency, quiet, uneven_cluster
from contract_battery.table import REGISTERED_OWN, SERVER_ONES
from lightning.fabric.utilities.exceptions import MisconfigurationException
from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.callbacks import BackboneFinetuning, GradientAccumulationScheduler, StochasticWeightAveraging
from lightning.pytorch.plugins import MixedPrecision
from torch import nn
from torch.utils.data import DataLoader, IterableDataset

from lightning_async import ParameterServerStrategy, SimulatedCluster
from lightning_async.data import Dirichlet
from lightning_async.methods import (
    ASGD,
    ClippedASGD,
    GradientCoding,
    LocalSGD,
    MaleniaSGD,
    MinibatchSGD,
    RennalaSGD,
    RingleaderASGD,
)
from lightning_async.simulation import BernoulliStragglers, FixedTimes, NoArrivalError, WorkerTimes
from lightning_async.strategies import LocalSGDStrategy


def strategy(method=None, **arguments):
    return ParameterServerStrategy(method if method is not None else ASGD(), uneven_cluster(), **arguments)


def refused(
    remedy: str, module: LightningModule | None = None, data=None, method=None, error=None, **arguments
) -> None:
    trainer = quiet(strategy=strategy(method, **arguments.pop("own", {})), max_steps=3, **arguments)
    with pytest.raises(error or MisconfigurationException, match=remedy):
        trainer.fit(module or Classifier(), data if data is not None else loader())
    assert module is None or module.trainer.global_step == 0


class Manual(Classifier):
    automatic_optimization = False

    def __init__(self) -> None:
        super().__init__()
        self.automatic_optimization = False


def test_manual_optimization() -> None:
    refused("automatic_optimization = True", Manual())


class TwoOptimizers(Classifier):
    def configure_optimizers(self):
        return [
            torch.optim.SGD(self.network.head.parameters(), 0.1),
            torch.optim.SGD(self.network.first.parameters(), 0.1),
        ]


def test_several_optimizers() -> None:
    refused("one optimizer with several parameter groups", TwoOptimizers())


@pytest.mark.parametrize("returned", [None, {"optimizer": None}])
def test_no_optimizer(returned: object) -> None:
    class WithoutOptimizer(Classifier):
        def configure_optimizers(self):
            return returned

    refused("optimizer=", WithoutOptimizer())


@pytest.mark.parametrize("name", REGISTERED_OWN)
def test_gradient_accumulation(name: str) -> None:
    remedy = r"RennalaSGD\(batch=4\)" if name in SERVER_ONES else "4 times the batch size"
    trainer = quiet(strategy=REGISTERED_OWN[name].build(), max_steps=3, accumulate_grad_batches=4)
    with pytest.raises(MisconfigurationException, match=remedy):
        trainer.fit(Classifier(), loader())


def test_gradient_accumulation_by_a_callback() -> None:
    refused(r"RennalaSGD\(batch=", callbacks=[GradientAccumulationScheduler({2: 4})])


@pytest.mark.parametrize("method", [MinibatchSGD(), MaleniaSGD(), RingleaderASGD(), LocalSGD(2.0)])
def test_stragglers_that_a_method_would_wait_for(method) -> None:
    kind = LocalSGDStrategy if isinstance(method, LocalSGD) else ParameterServerStrategy
    cluster = SimulatedCluster(BernoulliStragglers([0.0, 1e-3, 0.0]))
    with pytest.raises(NoArrivalError, match=r"each job of worker 1 never finishes with probability 0\.001"):
        quiet(strategy=kind(method, cluster), max_steps=3).fit(Classifier(), loader())


def test_several_nodes() -> None:
    refused("num_nodes=1; the number of workers", num_nodes=2)


def test_several_devices() -> None:
    with pytest.raises(MisconfigurationException, match=r"devices=1.*num_workers"):
        Trainer(accelerator="cpu", devices=2, strategy=strategy(), logger=False)


@pytest.mark.parametrize("name", REGISTERED_OWN)
def test_several_devices_of_a_registered_name(name: str) -> None:
    with pytest.raises(MisconfigurationException, match=r"devices=1.*num_workers"):
        Trainer(accelerator="cpu", devices=2, strategy=name, logger=False)


def test_stochastic_weight_averaging() -> None:
    refused("EMAWeightAveraging", callbacks=[StochasticWeightAveraging(swa_lrs=0.1)])


def test_finetuning_that_adds_parameters_later() -> None:
    class Backbone(Classifier):
        def __init__(self) -> None:
            super().__init__()
            self.backbone = self.network.first

        def configure_optimizers(self):
            return torch.optim.SGD([p for p in self.parameters() if p.requires_grad], lr=0.1)

    refused("two fits", Backbone(), callbacks=[BackboneFinetuning(unfreeze_backbone_at_epoch=1)])


def test_parameters_that_are_added_to_the_optimizer_later() -> None:
    class Growing(Classifier):
        def configure_optimizers(self):
            return torch.optim.SGD([*self.network.first.parameters()], lr=0.1)

        def on_train_batch_start(self, batch, batch_idx):
            if batch_idx == 1:
                self.optimizers().optimizer.add_param_group({"params": [self.network.gate]})

    with pytest.raises(MisconfigurationException, match="two fits"):
        quiet(strategy=strategy(), max_steps=3).fit(Growing(), loader())


def test_clipping_twice() -> None:
    refused(r"ClippedASGD\(clip=0.5\)", gradient_clip_val=0.5, method=ClippedASGD(clip=1.0))


@pytest.mark.parametrize("loaders", [dict, list], ids=["dict", "list"])
def test_several_training_loaders(loaders) -> None:
    data = {"a": loader(), "b": loader()} if loaders is dict else [loader(), loader()]
    refused("Return a single DataLoader", data=data)


def test_sparse_gradients_where_they_cannot_be_taken() -> None:
    class Sparse(Classifier):
        def __init__(self) -> None:
            super().__init__()
            self.embedding = nn.Embedding(5, 2, sparse=True)

    refused("sparse=False", Sparse(), method=MinibatchSGD())


@pytest.mark.parametrize("method", [MinibatchSGD(), RennalaSGD(batch=2)], ids=repr)
def test_a_gradient_scaler_where_gradients_are_combined(method) -> None:
    plugin = MixedPrecision("16-mixed", "cpu", scaler=torch.amp.GradScaler("cpu"))
    refused("bf16-mixed", plugins=[plugin], method=method)


def test_a_step_that_fetches_its_own_batches() -> None:
    class Fetching(Classifier):
        def training_step(self, dataloader_iter):
            return self.loss(next(dataloader_iter)[0])

    refused(r"training_step\(self, batch, batch_idx\)", Fetching())


def test_an_optimizer_that_evaluates_the_loss_several_times() -> None:
    class Newton(Classifier):
        def configure_optimizers(self):
            return torch.optim.LBFGS(self.parameters())

    refused("first-order", Newton())


def test_an_optimizer_step_that_does_not_step() -> None:
    class Skipping(Classifier):
        def optimizer_step(self, epoch, batch_idx, optimizer, optimizer_closure=None):
            optimizer.step(closure=optimizer_closure) if batch_idx % 2 else optimizer_closure()

    with pytest.raises(MisconfigurationException, match=r"RennalaSGD\(batch="):
        quiet(strategy=strategy(), max_steps=3).fit(Skipping(), loader())


def test_an_optimizer_step_without_its_closure() -> None:
    class Forgetful(Classifier):
        def optimizer_step(self, epoch, batch_idx, optimizer, optimizer_closure=None):
            optimizer_closure()
            optimizer.step()

    with pytest.raises(MisconfigurationException, match="closure=optimizer_closure"):
        quiet(strategy=strategy(), max_steps=3).fit(Forgetful(), loader())


def test_a_scheduler_of_an_optimizer_that_is_replaced() -> None:
    refused("lr_scheduler=", Classifier(schedule=True), own={"optimizer": lambda p: torch.optim.SGD(p, lr=0.1)})


def test_a_scheduler_that_does_not_say_which_metric_it_watches() -> None:
    own = {
        "optimizer": lambda p: torch.optim.SGD(p, lr=0.1),
        "lr_scheduler": lambda optimizer: torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer),
    }
    refused("lightning.pytorch.cli.ReduceLROnPlateau, monitor=", own=own)


@pytest.mark.parametrize(
    ("make", "what"),
    [(lambda p: [torch.optim.SGD(p[:1], lr=0.1), torch.optim.SGD(p[1:], lr=0.1)], "list"), (print, "NoneType")],
    ids=["several", "none"],
)
def test_what_makes_no_optimizer(make, what: str) -> None:
    refused(f"given as optimizer must make one, but it returned an object of class {what}", own={"optimizer": make})


def test_what_makes_no_scheduler() -> None:
    own = {"optimizer": lambda p: torch.optim.SGD(p, lr=0.1), "lr_scheduler": lambda optimizer: None}
    refused("given as lr_scheduler must make one, but it returned an object of class NoneType", own=own)


class Stream(IterableDataset):
    def __iter__(self):
        return iter(torch.zeros(8, 2))


def test_a_partition_of_data_that_have_no_size() -> None:
    refused("map-style", data=DataLoader(Stream()), own={"partition": Dirichlet(alpha=0.5)}, error=TypeError)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"method": "asgd"}, "method must be"),
        ({"method": None}, "method must be"),
        ({"cluster": FixedTimes([1.0])}, "SimulatedCluster"),
        ({"partition": 0.5}, "Dirichlet"),
        ({"seed": -1}, r"seed must be an integer from 0 to 2\*\*64 - 1, got -1"),
        ({"seed": 1.5}, r"seed must be an integer from 0 to 2\*\*64 - 1, got 1.5"),
        ({"seed": 2**64}, r"seed must be an integer from 0 to 2\*\*64 - 1, got 18446744073709551616"),
        ({"on_nonfinite": "ignore"}, "on_nonfinite must be one of 'discard', 'raise', got 'ignore'"),
        ({"lr_scheduler": lambda optimizer: None}, "optimizer="),
        ({"lr_scheduler_interval": "hour"}, "'epoch' or 'step'"),
        ({"lr_scheduler_interval": "step"}, "lr_scheduler is stepped"),
    ],
)
def test_wrong_arguments(arguments, message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        ParameterServerStrategy(**{"method": ASGD(), "cluster": uneven_cluster(), **arguments})


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: FixedTimes([]), ValueError, "times is empty: give one duration for each worker"),
        (lambda: FixedTimes([1.0, -1.0]), ValueError, r"times\[1\] must be a finite number above 0, got -1.0"),
        (lambda: FixedTimes([float("nan")]), ValueError, r"times\[0\] must be a finite number above 0, got nan"),
        (lambda: SimulatedCluster([1.0, 2.0]), TypeError, r"times must be a WorkerTimes .*, got \[1.0, 2.0\]"),
        (lambda: ClippedASGD(clip=0.0), ValueError, "clip must be a number above 0, got 0.0"),
        (lambda: ClippedASGD(clip=float("nan")), ValueError, "clip must be a number above 0, got nan"),
    ],
)
def test_wrong_clusters_and_methods(make, error, message: str) -> None:
    with pytest.raises(error, match=message):
        make()


@pytest.mark.parametrize("own", [True, False], ids=["module", "strategy"])
def test_a_module_of_which_everything_is_frozen(own: bool) -> None:
    module = Classifier().requires_grad_(False)
    arguments = {} if own else {"optimizer": lambda p: torch.optim.SGD(p, lr=0.1)}
    refused(r"no parameter of Classifier is trainable.*requires_grad_\(True\)", module, own=arguments)


def test_an_optimizer_of_frozen_parameters_only() -> None:
    class Frozen(Classifier):
        def configure_optimizers(self):
            return torch.optim.SGD(self.network.head.requires_grad_(False).parameters(), lr=0.1)

    refused("all 2 parameters of SGD are frozen", Frozen())


@pytest.mark.parametrize("replicas", [False, True], ids=["server", "replicas"])
def test_an_optimizer_of_parameters_that_are_not_the_modules(replicas: bool) -> None:
    class Foreign(Classifier):
        def configure_optimizers(self):
            return torch.optim.SGD([nn.Parameter(torch.zeros(2))], lr=0.1)

    own = LocalSGDStrategy(LocalSGD(compute_window=4.0), cluster_with_latency()) if replicas else strategy()
    with pytest.raises(MisconfigurationException, match=r"none of the 1 parameters of SGD .*self.parameters\(\)"):
        quiet(strategy=own, max_steps=3).fit(Foreign(), loader())


def test_replicas_with_an_optimizer_that_evaluates_the_loss_several_times() -> None:
    class Newton(Classifier):
        def configure_optimizers(self):
            return torch.optim.LBFGS(self.parameters())

    own = LocalSGDStrategy(LocalSGD(compute_window=4.0), cluster_with_latency())
    with pytest.raises(MisconfigurationException, match="first-order"):
        quiet(strategy=own, max_steps=3).fit(Newton(), loader())


def test_a_second_estimate_that_the_optimizer_cannot_take() -> None:
    method = GradientCoding("uncoded", bits=64, quantizer="dither", decoder="own", partitions=4, second="own")
    cluster = SimulatedCluster(BernoulliStragglers([0.1, 0.1, 0.1, 0.1]))
    with pytest.raises(MisconfigurationException, match=r"SGD has no set_second_gradient.*TwoTrackAdam.*second="):
        quiet(strategy=ParameterServerStrategy(method, cluster), max_steps=3).fit(Classifier(), loader())


def test_a_fraction_of_data_of_unknown_length() -> None:
    with pytest.raises(MisconfigurationException, match="limit_train_batches"):
        quiet(strategy=strategy(), max_steps=3, limit_train_batches=0.5).fit(Classifier(), DataLoader(Stream()))


def test_data_without_a_sample() -> None:
    refused("length 0", data=DataLoader(torch.zeros(0, 2)), error=ValueError)


def test_fewer_samples_than_a_mini_batch_that_are_dropped() -> None:
    few = DataLoader(torch.zeros(3, 2), batch_size=4, drop_last=True)
    refused(r"3 samples, fewer than batch_size=4, and drop_last=True.*batch_size=3 or less", data=few, error=ValueError)


class HidesItsExponent(ASGD):
    def __init__(self, exponent: float) -> None:
        super().__init__()
        self._power = exponent


class HidesItsDuration(WorkerTimes):
    def __init__(self, num_workers: int, hours: float) -> None:
        self.num_workers = num_workers
        self.constant = (hours,) * num_workers

    def sampler(self, seed: int):
        return FixedTimes(self.constant).sampler(seed)


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda: ParameterServerStrategy(HidesItsExponent(2.0), uneven_cluster()), "exponent"),
        (lambda: ParameterServerStrategy(ASGD(), SimulatedCluster(HidesItsDuration(2, 0.5))), "hours"),
        (lambda: LocalSGDStrategy(LocalSGD(1.0), SimulatedCluster(HidesItsDuration(2, 0.5))), "hours"),
    ],
)
def test_a_method_or_worker_times_that_a_checkpoint_could_not_tell(make, name: str) -> None:
    with pytest.raises(TypeError, match=rf"kept in an attribute .*self\.{name} in __init__"):
        make()
