"""The decoder of the NanoChat experiment (arXiv 2605.18174) and its LightningModule.

Pre-norm transformer with rotary positions, normalised queries and keys, relu^2 MLP, RMS norms without parameters and
capped logits. Six layers of width 192 have 36 hidden matrices of three shapes.
"""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.optim import Optimizer

from lightning_async.optim import Muon
from recipes.language_modelling import LanguageModelling

__all__ = ["Decoder", "NanoChat"]


class SelfAttention(nn.Module):
    """Causal attention with rotary positions."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(width, width, bias=False)
        self.key = nn.Linear(width, width, bias=False)
        self.value = nn.Linear(width, width, bias=False)
        self.output = nn.Linear(width, width, bias=False)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        """Attend within (batch, length, width); cos and sin are (length, head width / 2)."""
        batch, length, width = x.shape
        shape = (batch, length, self.heads, width // self.heads)
        query, key, value = (layer(x).view(shape).transpose(1, 2) for layer in (self.query, self.key, self.value))
        query, key = (_rms_norm(_rotate(part, cos, sin)) for part in (query, key))
        attended = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        mixed: Tensor = self.output(attended.transpose(1, 2).reshape(batch, length, width))
        return mixed


class Block(nn.Module):
    """Attention and a relu^2 MLP, each on the normalised residual stream."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.attention = SelfAttention(width, heads)
        self.expand = nn.Linear(width, 4 * width, bias=False)
        self.contract = nn.Linear(4 * width, width, bias=False)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        """Add both branches to (batch, length, width)."""
        x = x + self.attention(_rms_norm(x), cos, sin)
        branch: Tensor = self.contract(functional.relu(self.expand(_rms_norm(x))).square())
        return x + branch


class Decoder(nn.Module):
    """Decoder-only language model.

    Args:
        vocabulary: number of tokens.
        layers: number of blocks.
        width: of the residual stream.
        heads: attention heads; ``width / heads`` must be even.
        tied: use the embedding as output head.
        softcap: logits are softcap * tanh(logits / softcap).

    Raises:
        ValueError: if the width cannot be divided into heads of even width.

    Example:
        >>> Decoder(vocabulary=16, layers=1, width=8, heads=2)(torch.tensor([[3, 1, 4]])).shape
        torch.Size([1, 3, 16])
    """

    def __init__(
        self,
        vocabulary: int = 8192,
        layers: int = 6,
        width: int = 192,
        heads: int = 3,
        tied: bool = False,
        softcap: float = 15.0,
    ) -> None:
        super().__init__()
        if width % (2 * heads) != 0:
            raise ValueError(f"width={width} must be a multiple of 2 * heads={2 * heads}: rotations need even heads")
        if not softcap > 0:
            raise ValueError(f"softcap={softcap} must be positive")
        self.head_width = width // heads
        self.softcap = softcap
        self.embedding = nn.Embedding(vocabulary, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.head = nn.Linear(width, vocabulary, bias=False)
        if tied:
            self.head.weight = self.embedding.weight
        self._initialise(tied)

    def _initialise(self, tied: bool) -> None:
        for name, module in self.blocks.named_modules():
            if isinstance(module, nn.Linear):
                # Branches start at zero, so that the first gradients reach every layer through the residual stream.
                ends_branch = name.endswith((".output", ".contract"))
                rows, columns = module.weight.shape
                std = 0.0 if ends_branch else min(1.0, math.sqrt(rows / columns)) / math.sqrt(columns)
                nn.init.normal_(module.weight, std=std)
        # Embeddings are normalised before the first block, so a tied one can have the scale of a head.
        nn.init.normal_(self.embedding.weight, std=0.02 if tied else 1.0)
        if not tied:
            nn.init.normal_(self.head.weight, std=0.001)

    def forward(self, tokens: Tensor) -> Tensor:
        """Logits (batch, length, vocabulary) in float32 of the token after each of (batch, length)."""
        cos, sin = _rotations(tokens.shape[1], self.head_width, tokens.device)
        x = _rms_norm(self.embedding(tokens))
        for block in self.blocks:
            x = block(x, cos.to(x.dtype), sin.to(x.dtype))
        logits = self.head(_rms_norm(x)).float()
        return self.softcap * torch.tanh(logits / self.softcap)


class NanoChat(LanguageModelling):
    """Language modelling on windows of tokens.

    A batch is what `TextTokens` gives: tokens and the tokens that follow them, each (batch, length). Logs
    ``train/loss`` at every step, ``val/loss`` (nats per token) and ``val/perplexity``, its exponential.

    Args:
        vocabulary: number of tokens.
        layers: number of blocks.
        width: of the residual stream.
        heads: attention heads.
        tied: use the embedding as output head.
        softcap: cap of the logits.
        lr: step size of Muon, unless a strategy replaces the optimizer.
        head_lr_scale: factor of ``lr`` for the output head, whose sign steps are 1 / width per entry.

    Example:
        >>> module = NanoChat(vocabulary=16, layers=1, width=8, heads=2)
        >>> module.loss((torch.tensor([[3, 1, 4]]), torch.tensor([[1, 4, 1]]))).isfinite().item()
        True
    """

    def __init__(
        self,
        vocabulary: int = 8192,
        layers: int = 6,
        width: int = 192,
        heads: int = 3,
        tied: bool = False,
        softcap: float = 15.0,
        lr: float = 0.02,
        head_lr_scale: float = 10.0,
    ) -> None:
        super().__init__()
        self.save_hyperparameters()
        self.decoder = Decoder(vocabulary, layers, width, heads, tied, softcap)
        self.vocabulary = vocabulary
        self.lr = lr
        self.head_lr_scale = head_lr_scale

    def forward(self, tokens: Tensor) -> Tensor:
        """Logits of the decoder."""
        logits: Tensor = self.decoder(tokens)
        return logits

    def configure_optimizers(self) -> Optimizer:
        """Muon with the released settings."""
        return Muon(self, lr=self.lr, lr_scale={"head": self.head_lr_scale, "tied": self.head_lr_scale})


def _rms_norm(x: Tensor) -> Tensor:
    return functional.rms_norm(x, (x.shape[-1],))


def _rotations(length: int, head_width: int, device: torch.device) -> tuple[Tensor, Tensor]:
    exponents = torch.arange(0, head_width, 2, device=device, dtype=torch.float32) / head_width
    positions = torch.arange(length, device=device, dtype=torch.float32)
    angles = torch.outer(positions, 10_000.0**-exponents)
    return angles.cos(), angles.sin()


def _rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    first, second = x.chunk(2, dim=-1)
    return torch.cat((first * cos - second * sin, first * sin + second * cos), dim=-1)
