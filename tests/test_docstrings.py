"""Every example in a docstring of the package and of the recipes runs and prints what it says."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

import lightning_async
import recipes

MODULES = [
    module.name
    for package in (lightning_async, recipes)
    for module in pkgutil.walk_packages(package.__path__, prefix=f"{package.__name__}.")
    if not module.name.endswith("__main__")
]


@pytest.mark.parametrize("name", MODULES)
def test_examples_of(name: str) -> None:
    result = doctest.testmod(importlib.import_module(name))
    assert result.failed == 0


@pytest.mark.parametrize("package", ["lightning_async", "recipes"])
def test_there_are_examples(package: str) -> None:
    modules = [importlib.import_module(name) for name in MODULES if name.startswith(f"{package}.")]
    tried = sum(len(test.examples) for module in modules for test in doctest.DocTestFinder().find(module))
    assert tried > 50
