"""Nesterov's quadratic with thousands of workers: Ringmaster, parameter-agnostic, Rennala, delay-adaptive ASGD."""

from recipes.quadratic.problem import Quadratic
from recipes.quadratic.settings import Grid, Profile, Study

__all__ = ["Grid", "Profile", "Quadratic", "Study"]
