"""Changes of the code of stored runs: what is kept with a run, and what is said when it has changed."""

import importlib
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from lightning_async.cli.compare.changed_code import changed_finished, changed_interrupted, rows_of_runs
from lightning_async.cli.compare.own_code import file_digest, module_file, own_code
from lightning_async.cli.compare.reading import load_comparison
from lightning_async.cli.compare.sources import Sources, imported_sources
from lightning_async.cli.main import main
from tests.cli.stored import results

Write = Callable[..., Path]
ROWS = {"all/asgd": {"k": 0}}
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


BASE = "import torch\n\nclass Model(torch.nn.Linear):\n    pass\n"


def write_module(folder: Path, name: str, code: str) -> str:
    """Writes a module under a name that no other test has imported, and returns that name."""
    name = f"{name}_of_{folder.name}"
    (folder / f"{name}.py").write_text(code)
    return name


@pytest.mark.parametrize(
    "use",
    [
        "from {other} import SCALE",
        "def f():\n    from {other} import SCALE",
        "import {other}",
        "import {other} as o",
        "from {other} import *",
        "try:\n    from {other} import cached\nexcept ImportError:\n    cached = None",
        "from {other} import an_object",
    ],
)
def test_whatever_a_file_imports_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, use: str) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    other = write_module(tmp_path, "other", "SCALE = 1.0\ncached = an_object = object()\n")
    model = write_module(tmp_path, "model", BASE + use.format(other=other))
    importlib.import_module(model)
    assert list(own_code(f"{model}.Model")) == [model, other]


@pytest.mark.parametrize("use", ["from ..layers import width", "from .. import layers", "from ..layers import *"])
def test_relative_imports_count(package: Path, use: str) -> None:
    (package / "below").mkdir()
    (package / "below" / "__init__.py").touch()
    (package / "below" / "model.py").write_text(BASE + use)
    assert list(own_code(f"{package.name}.below.model.Model")) == [
        f"{package.name}.below.model",
        f"{package.name}.layers",
    ]


def test_a_name_that_a_package_changes_is_its_own(package: Path) -> None:
    (package / "__init__.py").write_text(f"from {package.name}.model import Model\nModel = type('M', (Model,), {{}})")
    assert package.name in own_code(f"{package.name}.Model")


def test_modules_that_import_each_other_are_told_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    one, other = (f"{name}_of_{tmp_path.name}" for name in ("one", "other"))
    write_module(tmp_path, "one", f"import {other}")
    write_module(tmp_path, "other", f"import {one}")
    assert own_code(f"{one}.f").keys() == {one, other}


@pytest.mark.parametrize(
    "content", [b"def (", b"\x00\x01", b"\xff\xfe", b"from ... import x", b"(" * 5000, b"-" * 100_000 + b"1"]
)
def test_what_is_no_program_counts_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    module = write_module(tmp_path, "module", "")
    file = tmp_path / f"{module}.py"
    file.write_bytes(content)
    assert own_code(f"{module}.f") == {module: file_digest(file)}


def test_what_is_installed_is_nobodys_own() -> None:
    assert own_code("torch.nn.Linear") == own_code("json.dumps") == own_code("lightning_async.LOSCAR") == {}


def mask(round: int, d: int) -> range:
    return range(d)


@pytest.mark.parametrize("value", [f"{__name__}.mask", mask, [mask]])
def test_functions_of_a_configuration_count_like_classes(value: object) -> None:
    sources = imported_sources({"method": {"init_args": {"mask": value}}})
    assert __name__ in sources.classes[f"{__name__}.mask"]


@pytest.mark.parametrize("text", ["val/acc", "a sentence. And another.", "others.csv", "1.5", "..", "missing.py"])
def test_other_texts_of_a_configuration_are_no_code(package: Path, text: str) -> None:
    assert imported_sources({"value": text}) == Sources({}, {})


def test_code_that_was_imported_counts_and_not_what_the_file_has_become(package: Path) -> None:
    importlib.import_module(package.name)
    before = imported_sources(config_of(package))
    (package / "model.py").write_text("raise RuntimeError")
    assert imported_sources(config_of(package)) == before


def test_the_file_of_a_module_is_found_without_importing_it(package: Path) -> None:
    assert module_file(f"{package.name}.others") == package / "others.py"
    assert package.name not in sys.modules
    assert module_file(f"{package.name}.nothing.at_all") is None


def test_a_folder_in_a_package_that_is_not_imported_is_passed_over(package: Path) -> None:
    (package / "folder").mkdir()
    (package / "folder" / "module.py").touch()
    assert module_file(f"{package.name}.folder.module") is None


def test_nothing_is_below_a_module_that_is_no_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    one, other = (write_module(tmp_path, name, "") for name in ("one", "other"))
    assert module_file(f"{one}.{other}") is None


def test_nothing_is_said_while_nothing_has_changed(package: Path, tmp_path: Path) -> None:
    stored(tmp_path / "out", package)
    (package / "others.py").write_text("# changed")
    for changed in (changed_finished, changed_interrupted):
        assert changed(tmp_path / "out", ROWS, ["k", "stored before there were sources"]) == ""


@pytest.mark.parametrize("module", ["model", "layers"])
def test_a_change_is_named_with_class_file_and_runs(package: Path, tmp_path: Path, module: str) -> None:
    output = stored(stored(tmp_path / "out", package, "a"), package, "b")
    file = package / f"{module}.py"
    file.write_text(file.read_text() + "# changed")
    rows = {"all/asgd": {"a": 0, "b": 1, "old": 2, "to come": 3}, "all/untouched": {"old": 2}}
    told = changed_finished(output, rows, ["a", "b", "old"])
    assert "code has changed since 2 of 3 finished runs were begun" in told
    assert f"  {package.name}.Model, in {file}: all/asgd (seeds 0, 1)\n" in told
    assert f"delete {output}/runs/{{a,b}};" in told


@pytest.mark.parametrize(
    ("row", "named"),
    [
        ({"a": 0, "b": 1}, "all/asgd"),
        ({"a": 0, "b": 1, "c": 2}, "all/asgd (seeds 0, 1)"),
        ({"a": 0, "c": 2}, "all/asgd (seed 0)"),
        ({"a": 0, "b": 1, "c": 1}, "all/asgd (2 of its 3 runs)"),
    ],
)
def test_a_row_is_named_with_what_has_changed_in_it(
    package: Path, tmp_path: Path, row: dict[str, int], named: str
) -> None:
    output = stored(stored(tmp_path / "out", package, "a"), package, "b")
    (package / "model.py").write_text("# changed")
    rows = {"all/asgd": row, "all/untouched": {"c": 0}}
    for changed in (changed_finished, changed_interrupted):
        assert changed(output, rows, ["a", "b", "c"]).splitlines()[1].endswith(f"model.py: {named}")


def test_a_run_that_two_panels_share_is_named_in_both(tmp_path: Path, write_comparison: Write) -> None:
    panels = {"left": None, "right": None}
    comparison = load_comparison(write_comparison(tmp_path, panels=panels, methods={"asgd": {}}))
    rows = rows_of_runs(comparison, {})
    assert list(rows) == ["left/asgd", "right/asgd"]
    assert rows["left/asgd"] == rows["right/asgd"]
    assert list(rows["left/asgd"].values()) == [0, 1]


def test_another_version_of_a_package_is_named(tmp_path: Path) -> None:
    Sources({}, {"torch": "0.1", "gone_since": "1"}).write(tmp_path / "runs" / "k")
    assert "  torch 0.1, now " in changed_finished(tmp_path, ROWS, ["k"])
    assert "gone_since" not in changed_finished(tmp_path, ROWS, ["k"])


def test_a_class_that_cannot_be_found_any_more_has_not_changed(tmp_path: Path) -> None:
    Sources({"gone.Model": {"gone.since": "0123"}}, {}).write(tmp_path / "runs" / "k")
    assert changed_finished(tmp_path, ROWS, ["k"]) == ""


def test_every_file_is_read_once(package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    output = stored(stored(tmp_path / "out", package, "a"), package, "b")
    read = []
    read_bytes = Path.read_bytes
    monkeypatch.setattr(Path, "read_bytes", lambda path: [read.append(path), read_bytes(path)][1])
    assert changed_finished(output, ROWS, ["a", "b"]) == ""
    assert sorted(read) == [package / "layers.py", package / "model.py"]


@pytest.mark.parametrize(
    ("others", "differ"),
    [
        (Sources({"a.B": {"a.c": "0"}}, {"torch": "1"}), False),
        (Sources({"a.B": {"a.c": "1"}}, {"torch": "1"}), True),
        (Sources({"a.B": {"a.c": "0"}}, {"torch": "2"}), True),
        (Sources({"a.B": {"a.d": "1"}, "e.F": {"e": "2"}}, {"numpy": "2"}), False),
    ],
)
def test_sources_differ_in_what_both_know(others: Sources, differ: bool) -> None:
    sources = Sources({"a.B": {"a.c": "0"}}, {"torch": "1"})
    assert (bool(sources.differences(others)), bool(others.differences(sources))) == (differ, differ)


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
        assert text.count("code has changed since 2 of 2 finished runs were begun") == 1
        file = Path(__file__).parent / "tiny_recipe.py"
        assert f"tiny_recipe.TinyModule, in {file}: all/asgd, all/minibatch_sgd\n" in text
        assert f"delete {output / 'runs'};" in text
    assert results(output) == before
