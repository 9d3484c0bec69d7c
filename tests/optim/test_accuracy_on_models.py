"""The oracle on every hidden block of the NanoChat decoder and of a ResNet-18, with their real gradients."""

from dataclasses import dataclass

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional
from torchvision.models import resnet18

from lightning_async.optim.assignment import assign_norms
from lightning_async.optim.norms import NORMS, as_matrix, lmo
from recipes.nanochat.model import Decoder


@dataclass(frozen=True)
class Block:
    """A gradient as a matrix with its short side first in `gradient`, and its singular values and left vectors."""

    name: str
    matrix: Tensor
    values: Tensor
    vectors: Tensor

    @property
    def short(self) -> Tensor:
        return _short_first(self.matrix.double())


def _short_first(m: Tensor) -> Tensor:
    return m.T if m.shape[0] > m.shape[1] else m


def _blocks(module: nn.Module, loss: Tensor) -> list[Block]:
    loss.backward()
    blocks = []
    for assignment in assign_norms(module):
        if assignment.norm == "spectral":
            assert assignment.parameter.grad is not None
            matrix = as_matrix(assignment.parameter.grad)
            short = _short_first(matrix.double())
            squares, vectors = torch.linalg.eigh(short @ short.T)
            blocks.append(Block(assignment.name, matrix, squares.clamp_min(0).sqrt(), vectors))
    return blocks


@pytest.fixture(scope="module")
def blocks() -> list[Block]:
    torch.manual_seed(0)
    decoder, residual = Decoder(), resnet18()
    with torch.no_grad():
        # Branches that end in zeros would hide the layers before them from the first gradient.
        for name, parameter in decoder.named_parameters():
            if name.endswith(("output.weight", "contract.weight")):
                parameter.normal_(std=0.02)
    tokens = torch.randint(0, 8192, (1, 65))
    logits = decoder(tokens[:, :-1])
    found = _blocks(decoder, functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten()))
    assert len(found) == 36
    images, labels = torch.randn(4, 3, 64, 64), torch.randint(0, 1000, (4,))
    found += _blocks(residual, functional.cross_entropy(residual(images), labels))
    assert len(found) == 36 + 20
    assert all(block.values.amax() > 0 for block in found)
    return found


ACCURACY = [("released", 1e-3, 0.85, 1.15, 0.15), ("quintic", 1e-2, 0.65, 1.25, 0.35)]


@pytest.mark.parametrize(("coefficients", "smallest", "low", "high", "slack"), ACCURACY)
def test_spectral_step_has_the_promised_singular_values(blocks, coefficients, smallest, low, high, slack):
    for block in blocks:
        u = -_short_first(lmo(block.matrix, coefficients=coefficients, dtype=torch.float32).double())
        large = block.values >= smallest * block.matrix.norm()
        # With m = U S V', the diagonal of U' u V, one vector of U at a time.
        mapped = ((block.vectors.T @ u) * (block.vectors.T @ block.short)).sum(1)[large] / block.values[large]
        assert mapped.amin() >= low, block.name
        assert mapped.amax() <= high, block.name
        assert torch.linalg.eigvalsh(u @ u.T).amax().sqrt() <= high, f"small singular values of {block.name}"
        attained = (u * block.short).sum() / block.values.sum()
        assert abs(attained - 1) <= slack, block.name


@pytest.mark.parametrize("name", [name for name in NORMS if name != "spectral"])
def test_other_steps_attain_the_dual_norm_from_inside_the_unit_ball(blocks, name):
    norm = NORMS[name]
    for block in blocks:
        u = lmo(block.matrix, name).double()
        dual = norm.dual(block.matrix.double())
        assert norm.norm(u) <= 1 + 1e-5, block.name
        assert abs((u * block.matrix.double()).sum() + dual) <= 1e-5 * dual, block.name
