"""An optimizer that is given to the strategy gets what its class asks for: the module, or the parameters."""

import warnings
from functools import partial
from pathlib import Path

import pytest
import torch
import yaml
from lightning.pytorch import Trainer
from torch.utils.data import DataLoader, TensorDataset

from lightning_async import ParameterServerStrategy, SimulatedCluster
from lightning_async.cli.training import TrainingCLI
from lightning_async.methods import ASGD, ParameterAgnosticRingmaster
from lightning_async.optim import LMO, Muon
from lightning_async.simulation import UniformTimes
from lightning_async.strategies.registry import REGISTERED
from recipes.nanochat.model import NanoChat

OVERLAYS = Path(__file__).parents[2] / "configs" / "methods"
MUON = sorted(path.stem for path in OVERLAYS.glob("*_muon.yaml"))
# LightningCLI 2.6 calls jsonargparse by names that the latter has renamed.
pytestmark = pytest.mark.filterwarnings("ignore:(?s).*was deprecated in v4:DeprecationWarning")

MODEL = {
    "class_path": "recipes.nanochat.model.NanoChat",
    "init_args": {"vocabulary": 11, "layers": 1, "width": 8, "heads": 2},
}
QUIET = {
    "accelerator": "cpu",
    "logger": False,
    "enable_checkpointing": False,
    "enable_progress_bar": False,
    "enable_model_summary": False,
    "max_steps": 3,
    "max_epochs": -1,
}


def fit(trainer: Trainer, module: NanoChat) -> torch.optim.Optimizer:
    windows = torch.randint(11, (24, 6), generator=torch.Generator().manual_seed(0))
    trainer.fit(module, DataLoader(TensorDataset(windows[:, :-1], windows[:, 1:]), batch_size=2))
    assert trainer.global_step == 3
    return trainer.optimizers[0]


def by_configuration(strategy: dict, folder: Path) -> torch.optim.Optimizer:
    trainer = {**QUIET, "strategy": strategy, "default_root_dir": str(folder)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cli = TrainingCLI.from_config({"model": MODEL, "trainer": trainer})
    return fit(cli.trainer, cli.model)


def strategy_with(class_path: str, **init_args: object) -> dict:
    return {
        "class_path": "lightning_async.ParameterServerStrategy",
        "init_args": {
            "method": {"class_path": "lightning_async.methods.ASGD"},
            "cluster": {
                "class_path": "lightning_async.SimulatedCluster",
                "init_args": {
                    "times": {"class_path": "lightning_async.simulation.UniformTimes", "init_args": {"num_workers": 2}}
                },
            },
            "optimizer": {"class_path": class_path, "init_args": init_args},
        },
    }


def test_muon_by_configuration_gets_the_module(tmp_path: Path) -> None:
    optimizer = by_configuration(strategy_with("lightning_async.optim.Muon", lr=0.5, lr_scale={"head": 3.0}), tmp_path)
    assert type(optimizer) is Muon
    rates = {group["role"]: group["lr"] for group in optimizer.param_groups}
    assert rates == {"hidden": 0.5, "embedding": 0.5, "head": 1.5}


@pytest.mark.parametrize("class_path", ["torch.optim.SGD", "lightning_async.optim.LMO"])
def test_other_optimizers_by_configuration_get_the_parameters(class_path: str, tmp_path: Path) -> None:
    optimizer = by_configuration(strategy_with(class_path, lr=0.25), tmp_path)
    assert f"{type(optimizer).__module__}.{type(optimizer).__name__}".split(".")[-1] == class_path.split(".")[-1]
    assert [group["lr"] for group in optimizer.param_groups] == [0.25]


@pytest.mark.parametrize("make", [Muon, partial(Muon, lr=0.5), LMO, partial(torch.optim.SGD, lr=0.1)])
def test_classes_and_partials_in_python_get_what_they_ask_for(make) -> None:
    strategy = ParameterServerStrategy(ASGD(), SimulatedCluster(UniformTimes(2)), make)
    optimizer = fit(Trainer(strategy=strategy, **QUIET), NanoChat(**MODEL["init_args"]))
    expected = make.func if isinstance(make, partial) else make
    assert type(optimizer) is expected


@pytest.mark.parametrize("name", MUON)
def test_an_overlay_trains_with_muon_and_is_what_the_name_means(name: str, tmp_path: Path) -> None:
    strategy = yaml.safe_load((OVERLAYS / f"{name}.yaml").read_text())["trainer"]["strategy"]
    overlaid = by_configuration(strategy, tmp_path)
    registered = REGISTERED[name]()
    named = fit(Trainer(strategy=registered, **QUIET), NanoChat(**MODEL["init_args"]))
    assert type(overlaid) is type(named) is Muon
    keys = ("lr", "momentum", "nesterov", "norm", "radius", "role", "coefficients", "weight_decay")
    assert [[g[key] for key in keys] for g in overlaid.param_groups] == [
        [g[key] for key in keys] for g in named.param_groups
    ]
    if isinstance(registered.method, ParameterAgnosticRingmaster):
        assert not any(group["nesterov"] for group in named.param_groups)


def test_every_method_of_the_family_has_an_overlay() -> None:
    assert sorted(name for name in REGISTERED if name.endswith("_muon")) == MUON
    assert len(MUON) == 5
