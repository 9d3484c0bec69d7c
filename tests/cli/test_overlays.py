"""Method files laid over one another: the last one counts, nothing of those before is left."""

from collections import defaultdict
from pathlib import Path

import pytest
import yaml

from lightning_async.cli.main import main

CONFIGS = Path(__file__).parents[2] / "configs"
METHODS = sorted((CONFIGS / "methods").glob("*.yaml"))


def strategy(path: Path) -> dict[str, dict[str, dict[str, object]]]:
    arguments: dict[str, dict[str, dict[str, object]]]
    arguments = yaml.safe_load(path.read_text())["trainer"]["strategy"]["init_args"]
    return arguments


def test_every_method_file_sets_what_any_of_them_sets_beside_the_method() -> None:
    assert len({tuple(sorted(strategy(path))) for path in METHODS}) == 1
    assert len({tuple(sorted(strategy(path)["cluster"]["init_args"])) for path in METHODS}) == 1


def test_files_of_one_method_set_the_same_arguments() -> None:
    arguments = defaultdict(set)
    for path in METHODS:
        method = strategy(path)["method"]
        arguments[method["class_path"]].add(tuple(sorted(method.get("init_args", {}))))
    assert {name: sets for name, sets in arguments.items() if len(sets) > 1} == {}


def test_the_last_method_file_leaves_nothing_of_those_before(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["lightning-async"])
    monkeypatch.syspath_prepend(str(CONFIGS.parent))

    def printed(*methods: str) -> object:
        files = [CONFIGS / "recipes" / "a9a.yaml", *(CONFIGS / "methods" / f"{name}.yaml" for name in methods)]
        with pytest.raises(SystemExit):
            main(["fit", *(f"--config={file}" for file in files), "--print_config"])
        return yaml.safe_load(capsys.readouterr().out)["trainer"]

    assert printed("ringmaster_muon", "loscar_overwrite", "asgd") == printed("asgd")
