"""Local training of replicas: what overlap and sparse averages gain, and where they lose."""

from recipes.local_training.cells import Cell
from recipes.local_training.drift import Drift
from recipes.local_training.factorial import Factorial
from recipes.local_training.logistic import Setting, Variant, objectives, time_to_target
from recipes.local_training.step_counting import StepCounting, predicted_ratios

__all__ = [
    "Cell",
    "Drift",
    "Factorial",
    "Setting",
    "StepCounting",
    "Variant",
    "objectives",
    "predicted_ratios",
    "time_to_target",
]
