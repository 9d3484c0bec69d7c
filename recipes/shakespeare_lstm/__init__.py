"""Next-character prediction on Shakespeare's plays with an LSTM."""

from recipes.shakespeare_lstm.language_model import CharacterLSTM
from recipes.shakespeare_lstm.text import ShakespeareRoles

__all__ = ["CharacterLSTM", "ShakespeareRoles"]
