"""Changes of the code of stored runs: what is kept with a run, and what is said when it has changed."""

import importlib
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from lightning_async.cli.compare.changed_code import changed_code
from lightning_async.cli.compare.execution import execute
from lightning_async.cli.compare.plan import known_runs
from lightning_async.cli.compare.reading import load_comparison
from lightning_async.cli.compare.results import ResultFolder
from lightning_async.cli.compare.sources import Sources, file_digest, imported_sources, module_file
from lightning_async.cli.main import main
from tests.cli.stored import results

Write = Callable[..., Path]
MODEL = """
from {package}.layers import width
from lightning_async.methods import ASGD
import torch

class Model(torch.nn.Linear):
    def __init__(self) -> None:
        super().__init__(width(), 1)
"""
CONFIG = {
    "model": {"class_path": "{package}.Model"},
    "trainer": {"strategy": {"class_path": "lightning_async.ParameterServerStrategy"}, "callbacks": [None, 3]},
    "optimizer": {"class_path": "torch.optim.SGD", "init_args": {"lr": 0.1}},
}


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package whose class is in one of its modules and takes a function from another one; nobody takes a third."""
    name = f"package_of_{tmp_path.name}"  # another one for every test, as modules stay imported
    folder = tmp_path / "code" / name
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text(f"from {name}.model import Model\n")
    (folder / "model.py").write_text(MODEL.format(package=name))
    (folder / "layers.py").write_text("def width() -> int:\n    return 3\n")
    (folder / "others.py").write_text("import missing_altogether\n")
    monkeypatch.syspath_prepend(str(folder.parent))
    return folder


def config_of(package: Path) -> dict[str, object]:
    return {**CONFIG, "model": {"class_path": f"{package.name}.Model"}}


def stored(output: Path, package: Path, key: str = "k") -> Path:
    importlib.import_module(package.name)
    imported_sources(config_of(package)).write(output / "runs" / key)
    return output


def test_a_class_has_the_files_that_its_code_is_in_and_packages_their_versions(package: Path) -> None:
    importlib.import_module(package.name)
    sources = imported_sources(config_of(package))
    assert sources.classes == {
        f"{package.name}.Model": {
            f"{package.name}.{module}": file_digest(package / f"{module}.py") for module in ("model", "layers")
        }
    }
    assert set(sources.packages) == {"lightning_async", "torch"}


def test_sources_survive_the_file(tmp_path: Path) -> None:
    sources = Sources({"a.B": {"a.c": "0123"}}, {"torch": "2.9"})
    sources.write(tmp_path)
    assert Sources.read(tmp_path) == sources


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"classes": [], "packages": {}}', '{"classes": {"a": 1}}'])
def test_what_cannot_be_read_is_no_sources(tmp_path: Path, content: str) -> None:
    (tmp_path / "sources.json").write_text(content)
    assert Sources.read(tmp_path) is None


def test_code_that_was_imported_counts_and_not_what_the_file_has_become(package: Path) -> None:
    importlib.import_module(package.name)
    before = imported_sources(config_of(package))
    (package / "model.py").write_text("raise RuntimeError")
    assert imported_sources(config_of(package)) == before


def test_the_file_of_a_module_is_found_without_importing_it(package: Path) -> None:
    assert module_file(f"{package.name}.others") == package / "others.py"
    assert package.name not in sys.modules
    assert module_file(f"{package.name}.nothing.at_all") is None


def test_nothing_is_said_while_nothing_has_changed(package: Path, tmp_path: Path) -> None:
    stored(tmp_path / "out", package)
    (package / "others.py").write_text("# changed")
    assert changed_code(tmp_path / "out", ["k", "stored before there were sources"]) == ""


@pytest.mark.parametrize("module", ["model", "layers"])
def test_a_change_is_named_with_class_file_and_runs(package: Path, tmp_path: Path, module: str) -> None:
    output = stored(stored(tmp_path / "out", package, "a"), package, "b")
    file = package / f"{module}.py"
    file.write_text(file.read_text() + "# changed")
    told = changed_code(output, ["a", "b", "old"])
    assert "code has changed since 2 of 3 stored runs were begun" in told
    assert f"  {package.name}.Model, in {file}: 2 runs\n" in told
    assert f"delete their folders ({output}/runs/{{a,b}})" in told


def test_another_version_of_a_package_is_named(tmp_path: Path) -> None:
    Sources({}, {"torch": "0.1", "gone_since": "1"}).write(tmp_path / "runs" / "k")
    assert "  torch 0.1, now " in changed_code(tmp_path, ["k"])
    assert "gone_since" not in changed_code(tmp_path, ["k"])


def test_a_class_that_cannot_be_found_any_more_has_not_changed(tmp_path: Path) -> None:
    Sources({"gone.Model": {"gone.since": "0123"}}, {}).write(tmp_path / "runs" / "k")
    assert changed_code(tmp_path, ["k"]) == ""


def test_every_file_is_read_once(package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    output = stored(stored(tmp_path / "out", package, "a"), package, "b")
    read = []
    read_bytes = Path.read_bytes
    monkeypatch.setattr(Path, "read_bytes", lambda path: [read.append(path), read_bytes(path)][1])
    assert changed_code(output, ["a", "b"]) == ""
    assert sorted(read) == [package / "layers.py", package / "model.py"]


def test_a_run_that_goes_on_keeps_the_sources_it_began_with(tmp_path: Path, write_comparison: Write) -> None:
    comparison = load_comparison(write_comparison(tmp_path, seeds=[0], methods={"asgd": {}}, budget=4))
    (run,) = known_runs(comparison, {}).values()
    execute(run, tmp_path / "run", checkpoint_every=1e-6, report=lambda _: None)
    before = Sources.read(tmp_path / "run")
    assert before is not None
    assert list(before.classes) == ["tiny_recipe.TinyData", "tiny_recipe.TinyModule"]
    began = Sources({"tiny_recipe.TinyModule": {"tiny_recipe": "as it was"}}, {})
    began.write(tmp_path / "run")
    execute(run, tmp_path / "run", checkpoint_every=60.0, report=lambda _: None)
    assert Sources.read(tmp_path / "run") == began
    (tmp_path / "run" / "resume.ckpt").unlink()
    execute(run, tmp_path / "run", checkpoint_every=60.0, report=lambda _: None)
    assert Sources.read(tmp_path / "run") == before


def test_a_comparison_says_once_that_code_has_changed_and_runs_nothing_again(
    tmp_path: Path, write_comparison: Write, capsys: pytest.CaptureFixture[str]
) -> None:
    comparison = write_comparison(tmp_path, seeds=[0], budget=4)
    output = tmp_path / "out"
    command = ["compare", str(comparison), "--output", str(output)]
    assert main(command) == 0
    assert main(command) == 0
    assert "code has changed" not in capsys.readouterr().err + (output / "report.md").read_text()

    before = results(output)
    for key in before:
        sources = Sources.read(output / "runs" / key)
        assert sources is not None
        Sources({name: dict.fromkeys(files, "0123") for name, files in sources.classes.items()}, {}).write(
            output / "runs" / key
        )
    assert main(command) == 0
    told, page = capsys.readouterr().err, (output / "report.md").read_text()
    for text in (told, page):
        assert text.count("code has changed since 2 of 2 stored runs were begun") == 1
        assert f"tiny_recipe.TinyModule, in {Path(__file__).parent / 'tiny_recipe.py'}: 2 runs" in text
        assert f"(all that were in {output / 'runs'})" in text
    assert results(output) == before


def test_an_interrupted_run_whose_code_has_changed_is_named(
    tmp_path: Path, write_comparison: Write, capsys: pytest.CaptureFixture[str]
) -> None:
    comparison = write_comparison(tmp_path, seeds=[0], methods={"asgd": {}}, budget=4)
    (run,) = known_runs(load_comparison(comparison), {}).values()
    folder = ResultFolder(tmp_path / "out")
    command = ["compare", str(comparison), "--output", str(tmp_path / "out"), "--only", "asgd"]
    assert main(command) == 0
    (folder.run_folder(run.key) / "result.json").unlink()
    execute(run, folder.run_folder(run.key), checkpoint_every=1e-6, report=lambda _: None)
    Sources({"tiny_recipe.TinyModule": {"tiny_recipe": "0123"}}, {}).write(folder.run_folder(run.key))
    assert main(command) == 0
    assert "code has changed since 1 of 1 stored runs were begun" in capsys.readouterr().err
