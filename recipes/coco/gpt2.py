"""A decoder with the architecture of GPT-2 at any size, and its LightningModule for captions."""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from recipes.language_modelling import LanguageModelling

__all__ = ["GPT2", "CaptionModel"]


class Block(nn.Module):
    """Causal attention and a GELU MLP, each behind a LayerNorm and added to the residual stream.

    Args:
        width: Of the residual stream.
        heads: Attention heads.
        dropout: Probability of dropping, in attention and on both branches.
    """

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads = heads
        self.dropout = dropout
        self.attention_norm = nn.LayerNorm(width)
        self.query_key_value = nn.Linear(width, 3 * width)
        self.attention_output = nn.Linear(width, width)
        self.mlp_norm = nn.LayerNorm(width)
        self.expand = nn.Linear(width, 4 * width)
        self.contract = nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        """Add both branches to ``(batch, length, width)``."""
        batch, length, width = x.shape
        parts = self.query_key_value(self.attention_norm(x)).view(batch, length, 3, self.heads, width // self.heads)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        rate = self.dropout if self.training else 0.0
        attended = functional.scaled_dot_product_attention(query, key, value, dropout_p=rate, is_causal=True)
        mixed = self.attention_output(attended.transpose(1, 2).reshape(batch, length, width))
        x = x + functional.dropout(mixed, rate, self.training)
        hidden = functional.gelu(self.expand(self.mlp_norm(x)), approximate="tanh")
        return x + functional.dropout(self.contract(hidden), rate, self.training)


class GPT2(nn.Module):
    """GPT-2 (Radford et al. 2019): learned positions, LayerNorm before each branch, output tied to the embedding.

    Args:
        vocabulary: Number of tokens.
        context: Longest sequence.
        layers: Number of blocks.
        width: Of the residual stream, a multiple of ``heads``.
        heads: Attention heads.
        dropout: Probability of dropping.

    Raises:
        ValueError: If the width cannot be divided into the heads.

    Example:
        >>> GPT2(vocabulary=16, context=8, layers=1, width=8, heads=2)(torch.tensor([[3, 1, 4]])).shape
        torch.Size([1, 3, 16])
    """

    def __init__(
        self, vocabulary: int, context: int, layers: int, width: int, heads: int, dropout: float = 0.0
    ) -> None:
        super().__init__()
        if width % heads:
            raise ValueError(f"width must be a multiple of heads, got {width} and {heads}.")
        self.dropout = dropout
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = nn.Embedding(context, width)
        self.blocks = nn.ModuleList(Block(width, heads, dropout) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        for name, parameter in self.named_parameters():
            if parameter.ndim == 2:
                # Branches end in smaller weights, so that the residual stream does not grow with the layers.
                branch = name.endswith(("attention_output.weight", "contract.weight"))
                nn.init.normal_(parameter, std=0.02 / math.sqrt(2 * layers) if branch else 0.02)
            elif name.endswith("bias"):
                nn.init.zeros_(parameter)

    def forward(self, tokens: Tensor) -> Tensor:
        """Return the logits of the next token at every position, ``(batch, length, vocabulary)``."""
        x = self.tokens(tokens) + self.positions.weight[: tokens.shape[1]]
        x = functional.dropout(x, self.dropout, self.training)
        for block in self.blocks:
            x = block(x)
        return functional.linear(self.norm(x), self.tokens.weight)


class CaptionModel(LanguageModelling):
    """Language modelling of captions.

    A batch is what ``Captions`` gives. Logs ``train/loss`` at every step, ``val/loss`` (nats per token) and
    ``val/perplexity``, its exponential. The defaults are small; GPT-2 itself has ``vocabulary=50257``,
    ``context=1024``, ``layers=12``, ``width=768`` and ``heads=12``.

    Args:
        vocabulary: Number of tokens, as many as the data has.
        context: Longest caption in tokens.
        layers: Number of blocks.
        width: Of the residual stream.
        heads: Attention heads.
        dropout: Probability of dropping.
        lr: Step size of the plain SGD in ``configure_optimizers``; a configuration's ``optimizer`` replaces it.
    """

    def __init__(
        self,
        vocabulary: int = 320,
        context: int = 80,
        layers: int = 2,
        width: int = 64,
        heads: int = 4,
        dropout: float = 0.0,
        lr: float = 0.05,
    ) -> None:
        super().__init__()
        self.save_hyperparameters()
        self.decoder = GPT2(vocabulary, context, layers, width, heads, dropout)
        self.vocabulary = vocabulary
        self.context = context
        self.lr = lr

    def forward(self, tokens: Tensor) -> Tensor:
        """Logits of the decoder."""
        logits: Tensor = self.decoder(tokens)
        return logits

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Return plain SGD."""
        return torch.optim.SGD(self.parameters(), lr=self.lr)
