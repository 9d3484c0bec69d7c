"""Every recipe's configuration, run through LightningCLI as the command line does."""

from pathlib import Path

import pytest
import torch
from lightning.pytorch.cli import LightningCLI

CONFIGS = sorted((Path(__file__).parents[2] / "configs" / "recipes").glob("*.yaml"))
FEDERATED = {"cifar_cnn_federated", "fashion_cnn_federated", "shakespeare_lstm_federated"}
RECIPES = {"a9a", "cifar_cnn", "cifar_resnet18", "fashion_cnn", "shakespeare_lstm", "tiny_imagenet"} | FEDERATED
LARGE = {"cifar_cnn", "cifar_cnn_federated", "cifar_resnet18", "tiny_imagenet"}
# LightningCLI 2.6 calls jsonargparse by names that the latter has renamed.
pytestmark = pytest.mark.filterwarnings("ignore:(?s).*was deprecated in v4:DeprecationWarning")
OURS = [path for path in CONFIGS if path.stem in RECIPES]


def build(path, folder, *overrides):
    arguments = ["--config", str(path), f"--trainer.logger.init_args.save_dir={folder}", *overrides]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.argv", ["lightning-async"])  # LightningCLI would warn of pytest's own arguments
        return LightningCLI(
            subclass_mode_model=True,
            subclass_mode_data=True,
            save_config_kwargs={"overwrite": True},
            run=False,
            args=arguments,
        )


def fit_three_steps(path, folder):
    cli = build(
        path,
        folder,
        "--data.init_args.batch_size=4",
        "--trainer.max_steps=3",
        "--trainer.val_check_interval=2",
        "--trainer.log_every_n_steps=1",
        "--trainer.accelerator=cpu",
        "--trainer.enable_progress_bar=false",
        "--trainer.enable_model_summary=false",
        *(["--trainer.limit_val_batches=1", "--data.init_args.val_batch_size=20"] if path.stem in LARGE else []),
    )
    cli.trainer.fit(cli.model, datamodule=cli.datamodule)
    return cli


@pytest.fixture(
    scope="module",
    params=[pytest.param(path, id=path.stem, marks=pytest.mark.xdist_group(f"runs of {path.stem}")) for path in OURS],
)
def two_runs(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp(request.param.stem)
    with pytest.warns(UserWarning, match="will be overridden"):  # the optimizer of the file replaces the module's
        return folder, [fit_three_steps(request.param, folder) for _ in range(2)]


def test_no_recipe_lacks_its_configuration():
    assert {path.stem for path in OURS} == RECIPES


def test_runs_three_steps(two_runs):
    _, clis = two_runs
    assert [cli.trainer.global_step for cli in clis] == [3, 3]


def test_two_runs_in_one_folder_keep_both_results(two_runs):
    folder, _ = two_runs
    assert sorted(path.parent.name for path in folder.rglob("metrics.csv")) == ["version_0", "version_1"]
    assert len(list(folder.rglob("config.yaml"))) == 2


def test_same_seed_gives_the_same_parameters(two_runs):
    _, (first, second) = two_runs
    for one, other in zip(first.model.parameters(), second.model.parameters(), strict=True):
        assert torch.equal(one, other)


def test_logs_a_loss_per_step_and_validation_metrics(two_runs):
    folder, (cli, _) = two_runs
    metrics = cli.trainer.callback_metrics
    assert {"train/loss", "val/loss"} <= metrics.keys()
    assert "val/acc" in metrics or "val/perplexity" in metrics
    header, *rows = next(folder.rglob("version_0/metrics.csv")).read_text().splitlines()
    column = header.split(",").index("train/loss")
    assert sum(row.split(",")[column] != "" for row in rows) == 3


def test_names_the_data(two_runs):
    _, (cli, _) = two_runs
    assert cli.datamodule.data_name


@pytest.mark.parametrize("path", OURS, ids=lambda path: path.stem)
def test_step_size_of_the_configuration_replaces_that_of_the_module(path, tmp_path):
    with pytest.warns(UserWarning, match="will be overridden"):
        cli = build(path, tmp_path, "--optimizer.init_args.lr=0.125")
    optimizer = cli.model.configure_optimizers()
    assert isinstance(optimizer, torch.optim.SGD)
    assert optimizer.param_groups[0]["lr"] == 0.125


@pytest.mark.filterwarnings("ignore:.*will be overridden")
@pytest.mark.parametrize("name", sorted(FEDERATED))
def test_a_method_laid_over_a_federated_recipe_leaves_the_partition(name, tmp_path):
    recipe, overlay = CONFIGS[0].parent / f"{name}.yaml", CONFIGS[0].parents[1] / "methods" / "clipped_asgd.yaml"
    dispatch = "--trainer.strategy.method.dispatch=uniform"
    alone = build(recipe, tmp_path).trainer.strategy
    laid_over = build(recipe, tmp_path, "--config", str(overlay), dispatch).trainer.strategy
    assert repr(laid_over.partition) == repr(alone.partition) != "None"
    assert type(laid_over.method).__name__ == "ClippedASGD"
    assert (alone.method.dispatch, laid_over.method.dispatch) == ("uniform", "uniform")
