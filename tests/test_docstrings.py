"""Every example in a docstring of the package runs and prints what it says."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

import lightning_async

MODULES = [
    module.name
    for module in pkgutil.walk_packages(lightning_async.__path__, prefix="lightning_async.")
    if not module.name.endswith("__main__")
]


@pytest.mark.parametrize("name", MODULES)
def test_examples_of(name: str) -> None:
    result = doctest.testmod(importlib.import_module(name))
    assert result.failed == 0


def test_there_are_examples() -> None:
    tried = sum(
        len(test.examples) for name in MODULES for test in doctest.DocTestFinder().find(importlib.import_module(name))
    )
    assert tried > 50
