import pytest
import torch
from torch import nn


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(0)


@pytest.fixture
def small_network() -> nn.Module:
    """Every kind of parameter: embedding, norm, hidden matrix, convolution, bias, head."""
    return nn.Sequential(
        nn.Embedding(11, 6),
        nn.Linear(6, 8),
        nn.LayerNorm(8),
        nn.Unflatten(1, (2, 4)),
        nn.Conv1d(2, 3, 3, padding=1),
        nn.Flatten(),
        nn.Linear(12, 5),
    )
