"""A character-level LSTM language model."""

import torch
from torch import Tensor, nn

from recipes.language_modelling import LanguageModelling

__all__ = ["CharacterLSTM"]


class CharacterLSTM(LanguageModelling):
    """Predicts the next character at every position of a window; the state starts at zero in each window.

    Logs ``train/loss`` at every step, ``val/loss`` (nats per character) and ``val/perplexity``, its exponential.

    Args:
        vocabulary_size: Number of distinct characters.
        embedding_size: Width of the character embedding.
        hidden_size: Width of the LSTM.
        num_layers: Stacked LSTM layers.
        dropout: Probability with which outputs of each LSTM layer are dropped.
        lr: Step size of the plain SGD in ``configure_optimizers``; a configuration's ``optimizer`` replaces it.

    Raises:
        ValueError: If a size is not positive or ``dropout`` is outside [0, 1).

    Example:
        >>> CharacterLSTM(hidden_size=64)(torch.zeros(2, 5, dtype=torch.long)).shape
        torch.Size([2, 5, 81])
    """

    def __init__(
        self,
        vocabulary_size: int = 81,
        embedding_size: int = 8,
        hidden_size: int = 128,
        num_layers: int = 1,
        dropout: float = 0.2,
        lr: float = 1.0,
    ) -> None:
        super().__init__()
        sizes = {
            "vocabulary_size": vocabulary_size,
            "embedding_size": embedding_size,
            "hidden_size": hidden_size,
            "num_layers": num_layers,
        }
        for name, size in sizes.items():
            if size < 1:
                raise ValueError(f"{name} must be at least 1, got {size}.")
        if not 0 <= dropout < 1:
            raise ValueError(f"dropout must be a probability in [0, 1), got {dropout}.")
        self.save_hyperparameters()
        self.lr = lr
        self.embedding = nn.Embedding(vocabulary_size, embedding_size)
        # nn.LSTM drops between its layers only (and warns when there is but one); the last output is dropped below.
        self.lstm = nn.LSTM(
            embedding_size, hidden_size, num_layers, batch_first=True, dropout=dropout if num_layers > 1 else 0.0
        )
        self.dropout = nn.Dropout(dropout)
        self.head = nn.Linear(hidden_size, vocabulary_size)

    def forward(self, characters: Tensor) -> Tensor:
        """Map ``(batch, length)`` codes to ``(batch, length, vocabulary)`` logits of the next character."""
        outputs, _ = self.lstm(self.embedding(characters))
        logits: Tensor = self.head(self.dropout(outputs))
        return logits

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Return plain SGD."""
        return torch.optim.SGD(self.parameters(), lr=self.lr)
