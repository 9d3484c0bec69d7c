import doctest
import importlib

import pytest


@pytest.mark.parametrize("name", ["assignment", "lmo", "muon", "newton_schulz", "norms"])
def test_examples_in_docstrings_run(name):
    result = doctest.testmod(importlib.import_module(f"lightning_async.optim.{name}"))
    assert result.attempted > 0
    assert result.failed == 0
