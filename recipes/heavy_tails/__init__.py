"""Clipped against vanilla asynchronous SGD under gradient noise whose tail is known."""

from recipes.heavy_tails.noise import SubWeibullNoise
from recipes.heavy_tails.objectives import Bowl, RippledBowl
from recipes.heavy_tails.settings import Run, Study

__all__ = ["Bowl", "RippledBowl", "Run", "Study", "SubWeibullNoise"]
