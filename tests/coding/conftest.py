from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from lightning_async.coding import NormScaled, Quantizer

REFERENCE = json.loads((Path(__file__).parents[1] / "golden" / "gradient_coding_reference.json").read_text())


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "instance" in metafunc.fixturenames:
        instances = REFERENCE["instances"]
        metafunc.parametrize("instance", instances, ids=[i["name"].split()[0] for i in instances])


@pytest.fixture(scope="session")
def quantizer_reference() -> dict[str, Any]:
    return dict(REFERENCE["quantiser"])


@pytest.fixture(scope="session")
def set_aware_instance() -> dict[str, Any]:
    return dict(next(i for i in REFERENCE["instances"] if "set_aware" in i))


@pytest.fixture(scope="session")
def draws() -> Callable[..., torch.Tensor]:
    return _draws


def _draws(quantizer: Quantizer, vector: torch.Tensor, bits: int, count: int, seed: int = 0) -> torch.Tensor:
    """Independent quantisations of a vector, (count, length).

    Buckets are independent, so copies of one bucket go as one message; otherwise fewer draws are made, one by one.
    """
    if not isinstance(quantizer, NormScaled) and vector.numel() == getattr(quantizer, "bucket", vector.numel()):
        return quantizer.decode(quantizer.encode(vector.repeat(count), bits, seed=seed)).view(count, vector.numel())
    return torch.stack(
        [quantizer.decode(quantizer.encode(vector, bits, seed=1000 * seed + s)) for s in range(count // 32)]
    )
