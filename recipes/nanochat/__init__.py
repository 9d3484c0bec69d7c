"""The NanoChat experiment: a small decoder on byte-pair tokens, trained with Muon-type methods."""

from recipes.nanochat.model import Decoder, NanoChat
from recipes.nanochat.text import TextTokens

__all__ = ["Decoder", "NanoChat", "TextTokens"]
