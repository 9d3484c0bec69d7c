"""How fast gradient coding converges: slopes of the error against the number of updates, beside centralised SGD."""

from recipes.coding_rates.problems import LogisticProblem, NetworkProblem
from recipes.coding_rates.settings import SCHEMES, Run, Study

__all__ = ["SCHEMES", "LogisticProblem", "NetworkProblem", "Run", "Study"]
