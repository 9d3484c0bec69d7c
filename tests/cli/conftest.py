from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

RECIPE = {
    "model": {"class_path": "tiny_recipe.TinyModule"},
    "data": {"class_path": "tiny_recipe.TinyData"},
    "optimizer": {"class_path": "torch.optim.SGD", "init_args": {"lr": 0.03}},
    "trainer": {"accelerator": "cpu", "logger": False, "enable_checkpointing": False},
}


def overlay(method: str, **arguments: Any) -> dict[str, Any]:
    strategy = {
        "class_path": "lightning_async.ParameterServerStrategy",
        "init_args": {
            "method": {"class_path": f"lightning_async.methods.{method}", "init_args": arguments},
            "cluster": {
                "class_path": "lightning_async.SimulatedCluster",
                "init_args": {
                    "times": {
                        "class_path": "lightning_async.simulation.TwoSpeedTimes",
                        "init_args": {"num_workers": 4, "slowdown": 2.0},
                    }
                },
            },
        },
    }
    return {"trainer": {"strategy": strategy}}


@pytest.fixture(scope="session")
def configs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recipe and four method overlays, as files."""
    folder = tmp_path_factory.mktemp("configs")
    (folder / "methods").mkdir()
    local = overlay("LocalSGD", compute_window=2.0)
    local["trainer"]["strategy"]["class_path"] = "lightning_async.LocalSGDStrategy"
    (folder / "recipe.yaml").write_text(yaml.safe_dump(RECIPE))
    for name, content in {
        "asgd": overlay("ASGD"),
        "clipped_asgd": overlay("ClippedASGD", clip=1.0),
        "minibatch_sgd": overlay("MinibatchSGD"),
        "local_sgd": local,
    }.items():
        (folder / "methods" / f"{name}.yaml").write_text(yaml.safe_dump(content))
    return folder


@pytest.fixture(scope="session")
def write_comparison(configs: Path) -> Callable[..., Path]:
    """Writes a comparison on the tiny recipe and returns its path."""

    def write(folder: Path, name: str = "mine", **changes: Any) -> Path:
        times = {
            "class_path": "lightning_async.simulation.TwoSpeedTimes",
            "init_args": {"num_workers": 4, "slowdown": 2.0},
        }
        content: dict[str, Any] = {
            "title": "Tiny | 100 % of it",
            "recipe": str(configs / "recipe.yaml"),
            "methods_folder": str(configs / "methods"),
            "cluster": {"times": times},
            "budget": 20,
            "evaluate_every": 1,
            "target": {"metric": "val/loss", "value": 0.5, "mode": "min", "window": 2},
            "seeds": [0, 1],
            "tuning_seeds": [5],
            "methods": {"asgd": {"label": "ASGD_vanilla"}, "minibatch_sgd": {"label": "Mini-batch"}},
            **changes,
        }
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{name}.yaml"
        path.write_text(yaml.safe_dump(content, sort_keys=False))
        return path

    return write


@pytest.fixture(autouse=True)
def _tiny_recipe_can_be_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
