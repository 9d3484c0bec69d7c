"""Every configuration in the repository parses, prints, and runs, twice in the same folder."""

from pathlib import Path

import pytest
import yaml

from lightning_async.cli.compare.plan import known_runs
from lightning_async.cli.compare.reading import load_comparison
from lightning_async.cli.main import main
from lightning_async.strategies.registry import REGISTERED

ROOT = Path(__file__).parents[2]
CONFIGS = ROOT / "configs"
RECIPES = sorted((CONFIGS / "recipes").glob("*.yaml"))
METHODS = sorted((CONFIGS / "methods").glob("*.yaml"))
COMPARISONS = sorted((CONFIGS / "compare").glob("*.yaml"))
FAST = CONFIGS / "recipes" / "a9a.yaml"


def stem(path: Path) -> str:
    return path.stem


@pytest.fixture(autouse=True)
def _as_on_the_command_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["lightning-async"])
    monkeypatch.syspath_prepend(str(ROOT))


def words(command: str, *files: Path) -> list[str]:
    return [command, *(word for file in files for word in ("--config", str(file)))]


IMAGES = ("--data.init_args.batch_size=4", "--data.init_args.val_batch_size=20")
TOKENS = (
    "--model.init_args.vocabulary=300",
    "--model.init_args.layers=1",
    "--data.init_args.vocabulary=300",
    "--data.init_args.sequence_length=16",
    "--data.init_args.max_characters=20000",
    "--data.init_args.val_samples=4",
    "--data.init_args.batch_size=2",
    "--data.init_args.val_batch_size=4",
)
SCENES = (
    "--data.init_args.train_scenes=50",
    "--data.init_args.val_scenes=4",
    "--data.init_args.batch_size=2",
    "--data.init_args.val_batch_size=4",
)
SMALLER = {  # what makes three steps of a recipe quick
    "a9a": (),
    "fashion_cnn": IMAGES,
    "fashion_cnn_federated": IMAGES,
    "cifar_cnn": IMAGES,
    "cifar_cnn_federated": IMAGES,
    "cifar_resnet18": IMAGES,
    "tiny_imagenet": IMAGES,
    "shakespeare_lstm": ("--data.init_args.max_characters=20000", "--data.init_args.val_samples=20"),
    "shakespeare_lstm_federated": ("--data.init_args.max_characters=200000", "--data.init_args.val_samples=20"),
    "nanochat": TOKENS,
    "nanochat_small": TOKENS,
    "coco_mobilenet": SCENES,
    "coco_resnet50": SCENES,
    "coco_captions": SCENES,
}
THREE_STEPS = [
    "--trainer.max_steps=3",
    "--trainer.max_epochs=-1",
    "--trainer.accelerator=cpu",
    "--trainer.devices=1",
    "--trainer.val_check_interval=2",
    "--trainer.limit_val_batches=1",
    "--trainer.log_every_n_steps=1",
    "--trainer.enable_progress_bar=false",
    "--trainer.enable_model_summary=false",
]


def fit_twice(folder: Path, *files: Path) -> None:
    for _ in range(2):
        assert main([*words("fit", *files), *THREE_STEPS, *SMALLER[files[0].stem]]) == 0
    logs = list(folder.rglob("metrics.csv"))
    assert len(logs) == 2
    assert all(len(log.read_text().splitlines()) > 3 for log in logs)


@pytest.mark.parametrize("overlay", METHODS, ids=stem)
def test_a_method_runs_three_steps_twice_in_the_same_folder(overlay: Path, tmp_path: Path) -> None:
    fit_twice(tmp_path, FAST, overlay)


@pytest.mark.parametrize("recipe", RECIPES, ids=stem)
def test_a_recipe_runs_three_steps_twice_in_the_same_folder(recipe: Path, tmp_path: Path) -> None:
    fit_twice(tmp_path, recipe, CONFIGS / "methods" / "clipped_asgd.yaml")


def printed(capsys: pytest.CaptureFixture[str], *files: Path) -> str:
    with pytest.raises(SystemExit) as status:
        main([*words("fit", *files), "--print_config"])
    assert status.value.code == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("overlay", METHODS, ids=stem)
def test_a_printed_method_holds_what_its_file_says(overlay: Path, capsys: pytest.CaptureFixture[str]) -> None:
    strategy = yaml.safe_load(printed(capsys, FAST, overlay))["trainer"]["strategy"]
    given = yaml.safe_load(overlay.read_text())["trainer"]["strategy"]
    assert strategy["class_path"] == given["class_path"]
    assert strategy["init_args"]["method"]["class_path"] == given["init_args"]["method"]["class_path"]


@pytest.mark.parametrize("recipe", RECIPES, ids=stem)
def test_a_printed_recipe_can_be_used_again(recipe: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    once = tmp_path / "printed.yaml"
    once.write_text(printed(capsys, recipe))
    assert yaml.safe_load(printed(capsys, once)) == yaml.safe_load(once.read_text())


@pytest.mark.parametrize("path", METHODS, ids=stem)
def test_an_overlay_is_about_the_method_it_is_named_after(path: Path) -> None:
    strategy = yaml.safe_load(path.read_text())["trainer"]["strategy"]
    assert path.stem in REGISTERED
    method = type(REGISTERED[path.stem]().method)
    assert strategy["init_args"]["method"]["class_path"].rpartition(".")[2] == method.__name__


def test_every_registered_method_has_an_overlay() -> None:
    assert {path.stem for path in METHODS} >= set(REGISTERED)


@pytest.mark.parametrize("path", COMPARISONS, ids=stem)
def test_a_comparison_is_read_and_planned(path: Path) -> None:
    comparison = load_comparison(path)
    planned = list(known_runs(comparison, {}).values())
    assert {run.config["trainer"]["strategy"]["class_path"].partition(".")[0] for run in planned} == {"lightning_async"}
