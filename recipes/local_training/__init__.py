"""Local training of replicas: what overlap and sparse averages gain, and where they lose."""

from recipes.local_training.step_counting import StepCounting, predicted_ratios

__all__ = ["StepCounting", "predicted_ratios"]
