"""What language models have in common, whatever maps tokens to logits."""

from lightning.pytorch import LightningModule
from torch import Tensor
from torch.nn.functional import cross_entropy
from torchmetrics import MeanMetric

from recipes.data import Batch

__all__ = ["IGNORED", "LanguageModelling"]

IGNORED = -100
"""The token that follows where there is none: padding, which counts in no loss."""


class LanguageModelling(LightningModule):
    """Predicts the next token at every position of a window.

    A batch holds tokens and the tokens that follow them, each ``(batch, length)``. A subclass has a ``forward`` from
    tokens to logits ``(batch, length, vocabulary)``, and optimizers. Logs ``train/loss`` at every step, ``val/loss``
    (nats per token) and ``val/perplexity``, its exponential: the mean of per-batch perplexities would be too large.
    """

    def __init__(self) -> None:
        super().__init__()
        self.val_nats = MeanMetric()

    def loss(self, batch: Batch) -> Tensor:
        """Mean cross-entropy of the tokens that follow, in nats."""
        tokens, following = batch
        return cross_entropy(self(tokens).flatten(0, 1), following.flatten(), ignore_index=IGNORED)

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        """Loss of one mini-batch."""
        loss = self.loss(batch)
        self.log("train/loss", loss, prog_bar=True, batch_size=len(batch[0]))
        return loss

    def validation_step(self, batch: Batch, batch_idx: int) -> None:
        """Accumulate the cross-entropy over all tokens."""
        self.val_nats.update(self.loss(batch), weight=(batch[1] != IGNORED).sum())

    def on_validation_epoch_end(self) -> None:
        """Log the loss over all tokens and its exponential."""
        loss = self.val_nats.compute()
        self.val_nats.reset()
        self.log("val/loss", loss, prog_bar=True)
        self.log("val/perplexity", loss.exp(), prog_bar=True)

    def test_step(self, batch: Batch, batch_idx: int) -> None:
        """Evaluate as in validation, under the same names."""
        self.validation_step(batch, batch_idx)

    def on_test_epoch_end(self) -> None:
        """Evaluate as in validation, under the same names."""
        self.on_validation_epoch_end()
