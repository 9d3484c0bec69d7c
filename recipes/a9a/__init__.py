"""l2-regularised logistic regression on a9a: the strongly convex control."""

from recipes.a9a.logistic_regression import LogisticRegression
from recipes.a9a.rows import A9A

__all__ = ["A9A", "LogisticRegression"]
