"""Everything a strategy takes can be written in a configuration, read back, and overridden by dots."""

import pickle
from typing import Any

import pytest
import torch
import yaml
from contract_battery.running import quiet
from contract_battery.table import CONTRACTS
from jsonargparse import ArgumentParser
from lightning.pytorch.strategies import Strategy, StrategyRegistry

from lightning_async import ParameterServerStrategy
from lightning_async.cli.training import TrainingCLI
from lightning_async.data import Dirichlet, Shards
from lightning_async.methods import ClippedASGD, RingmasterASGD
from lightning_async.strategies.registry import REGISTERED, register

CONFIGURATION = {
    "model": {"class_path": "contract_battery.classifier.Classifier"},
    "data": {"class_path": "contract_battery.configured.Data"},
    "trainer": {
        "accelerator": "cpu",
        "devices": 1,
        "logger": False,
        "enable_checkpointing": False,
        "enable_progress_bar": False,
        "enable_model_summary": False,
        "max_steps": 4,
        "max_epochs": -1,
        "strategy": {
            "class_path": "lightning_async.ParameterServerStrategy",
            "init_args": {
                "method": {"class_path": "lightning_async.methods.ClippedASGD", "init_args": {"clip": 0.5}},
                "cluster": {
                    "class_path": "lightning_async.SimulatedCluster",
                    "init_args": {
                        "times": {
                            "class_path": "lightning_async.simulation.FixedTimes",
                            "init_args": {"times": [1.0, 1.5, 2.3]},
                        },
                        "link": {"class_path": "lightning_async.Link", "init_args": {"latency": 0.25}},
                        "seed": 3,
                    },
                },
                "seed": 5,
            },
        },
    },
}


def configured(*overrides: str, configuration: dict[str, Any] = CONFIGURATION) -> TrainingCLI:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.argv", ["lightning-async"])
        with open("run.yaml", "w") as file:
            yaml.safe_dump(configuration, file)
        return TrainingCLI(
            args=["--config", "run.yaml", *overrides],
            run=False,
            save_config_callback=None,
            seed_everything_default=False,
            parser_kwargs={"exit_on_error": False},
        )


def strategy_with(*overrides: str) -> ParameterServerStrategy:
    strategy = configured(*(f"--trainer.strategy.init_args.{override}" for override in overrides)).trainer.strategy
    assert isinstance(strategy, ParameterServerStrategy)
    return strategy


def test_nested_blocks_become_objects() -> None:
    strategy = strategy_with()
    assert repr(strategy.method) == repr(ClippedASGD(clip=0.5))
    assert strategy.cluster.times.num_workers == 3
    assert (strategy.cluster.link.latency, strategy.cluster.seed, strategy.seed) == (0.25, 3, 5)


def test_single_values_are_overridden_by_dots() -> None:
    strategy = strategy_with("method.init_args.clip=2.5", "seed=7", "on_nonfinite=raise")
    assert (strategy.method.clip, strategy.seed, strategy.on_nonfinite) == (2.5, 7, "raise")


def test_a_method_is_exchanged() -> None:
    method = strategy_with("method=lightning_async.methods.RingmasterASGD", "method.init_args.threshold=4").method
    assert repr(method) == repr(RingmasterASGD(threshold=4))


def test_a_threshold_may_be_a_word() -> None:
    method = strategy_with("method=RingmasterASGD", "method.init_args.threshold=adaptive").method
    assert method.threshold == "adaptive"


@pytest.mark.parametrize("partition", ["Dirichlet", "lightning_async.data.Dirichlet"])
def test_a_partition(partition: str) -> None:
    strategy = strategy_with(f"partition={partition}", "partition.init_args.alpha=0.3")
    assert repr(strategy.partition) == repr(Dirichlet(alpha=0.3))
    strategy = strategy_with("partition=Shards", "partition.init_args.per_worker=2")
    assert repr(strategy.partition) == repr(Shards(per_worker=2))


@pytest.mark.parametrize(("interval", "decays"), [(None, 2), ("epoch", 2), ("step", 8)])
def test_an_optimizer_and_its_schedule(interval: str | None, decays: int) -> None:
    cli = configured(
        "--trainer.strategy.init_args.optimizer=torch.optim.AdamW",
        "--trainer.strategy.init_args.optimizer.init_args.lr=0.25",
        "--trainer.strategy.init_args.lr_scheduler=torch.optim.lr_scheduler.ExponentialLR",
        "--trainer.strategy.init_args.lr_scheduler.init_args.gamma=0.5",
        *([] if interval is None else [f"--trainer.strategy.init_args.lr_scheduler_interval={interval}"]),
        "--trainer.max_epochs=2",
        "--trainer.limit_train_batches=4",
        "--trainer.max_steps=-1",
    )
    cli.trainer.fit(cli.model, cli.datamodule)
    (optimizer,) = cli.trainer.optimizers
    assert type(optimizer) is torch.optim.AdamW
    assert optimizer.param_groups[0]["lr"] == 0.25 * 0.5**decays


def test_an_optimizer_that_wants_the_module() -> None:
    cli = configured(
        "--trainer.strategy.init_args.optimizer=lightning_async.optim.Muon",
        "--trainer.strategy.init_args.optimizer.init_args.lr=0.01",
    )
    cli.trainer.fit(cli.model, cli.datamodule)
    assert type(cli.trainer.optimizers[0]).__name__ == "Muon"
    assert cli.trainer.global_step == 4


def test_the_optimizer_of_the_command_line_is_the_modules() -> None:
    cli = configured("--optimizer=torch.optim.SGD", "--optimizer.lr=0.125")
    cli.trainer.fit(cli.model, cli.datamodule)
    assert cli.trainer.optimizers[0].param_groups[0]["lr"] == 0.125


def test_a_configuration_says_what_is_wrong_with_it() -> None:
    with pytest.raises(Exception, match="clip must be a number above 0"):
        strategy_with("method.init_args.clip=-1")
    with pytest.raises(Exception, match="on_nonfinite"):
        strategy_with("on_nonfinite=maybe")


@pytest.mark.parametrize("name", CONTRACTS)
def test_a_strategy_can_be_pickled_before_it_is_used(name: str) -> None:
    copy = pickle.loads(pickle.dumps(CONTRACTS[name].build()))
    assert repr(copy.method) == repr(CONTRACTS[name].method())


@pytest.mark.parametrize("name", REGISTERED)
def test_names_are_registered_in_lower_case_and_described(name: str) -> None:
    assert name == name.lower()
    assert name in StrategyRegistry
    assert isinstance(StrategyRegistry.get(name), Strategy)
    assert isinstance(quiet(strategy=name).strategy, type(REGISTERED[name]()))


def test_registering_again_changes_nothing() -> None:
    before = dict(StrategyRegistry)
    register()
    assert dict(StrategyRegistry) == before


def test_the_printed_configuration_holds_the_arguments_and_nothing_else() -> None:
    parser = ArgumentParser(exit_on_error=False)
    parser.add_subclass_arguments(ParameterServerStrategy, "strategy")
    given = {**CONFIGURATION["trainer"]["strategy"]["init_args"]}
    parsed = parser.parse_object(
        {"strategy": {"class_path": "lightning_async.ParameterServerStrategy", "init_args": given}}
    )
    arguments = set(yaml.safe_load(parser.dump(parsed, skip_none=False))["strategy"]["init_args"])
    assert arguments == {"method", "cluster", "optimizer", "partition", "seed", "on_nonfinite"} | {
        "lr_scheduler",
        "lr_scheduler_interval",
    }
