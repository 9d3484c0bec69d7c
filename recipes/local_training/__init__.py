"""Local training of replicas: what overlap and sparse averages gain, and where they lose."""

from recipes.local_training.factorial import Cell, Factorial
from recipes.local_training.logistic import Setting, Variant, time_to_target
from recipes.local_training.step_counting import StepCounting, predicted_ratios

__all__ = ["Cell", "Factorial", "Setting", "StepCounting", "Variant", "predicted_ratios", "time_to_target"]
