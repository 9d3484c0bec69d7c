import ast
import doctest
import importlib
import sys
from pathlib import Path

import pytest

from lightning_async import theory


@pytest.mark.parametrize("name", ["clipped_asgd", "loscar", "parameters", "update_time"])
def test_examples_in_docstrings_run(name):
    result = doctest.testmod(importlib.import_module(f"lightning_async.theory.{name}"))
    assert result.attempted > 0
    assert result.failed == 0


def test_theory_imports_numpy_and_nothing_else():
    imported = set()
    for file in Path(theory.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Import):
                imported.update(alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                imported.add(node.module)
    foreign = {name for name in imported if name.split(".")[0] not in sys.stdlib_module_names}
    assert {name for name in foreign if not name.startswith("lightning_async.theory")} == {"numpy", "numpy.typing"}
