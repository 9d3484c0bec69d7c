"""What is run: two problems, centralised SGD and some schemes of gradient coding, several seeds."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Literal, TypeAlias, get_args

import numpy as np

from lightning_async import SimulatedCluster
from lightning_async.cli.compare.configuration import fingerprint
from lightning_async.methods import GradientCoding, Method, MinibatchSGD
from lightning_async.simulation import BernoulliStragglers, FixedTimes
from recipes.coding_rates.problems import LogisticProblem, NetworkProblem, Problem, check_rows
from recipes.studies import check_numbers, check_seeds

__all__ = ["PROBLEMS", "SCHEMES", "ProblemName", "Run", "Scheme", "Study"]

ProblemName: TypeAlias = Literal["a9a", "network"]
PROBLEMS: tuple[ProblemName, ...] = get_args(ProblemName)


_LEAST_L2 = 1e-4
"""Below, Newton's method need not find the minimum on a9a, whose data are rank deficient."""


@dataclass(frozen=True)
class Scheme:
    """A code and its bits.

    Attributes:
        label: In tables and the figure.
        code: Name of the code; None for centralised SGD: every gradient arrives as it is.
        bits: Bits a coordinate over all workers.
    """

    label: str
    code: Literal["interval", "osgc", "uncoded"] | None
    bits: int = 0


SCHEMES = {
    "sgd": Scheme("Centralised SGD", None),
    "proposed_50": Scheme("Proposed, 50 bits", "interval", 50),
    "proposed_10": Scheme("Proposed, 10 bits", "interval", 10),
    "osgc_10": Scheme("OSGC, 10 bits", "osgc", 10),
    "uncoded_10": Scheme("Uncoded, 10 bits", "uncoded", 10),
}


@dataclass(frozen=True)
class Run:
    """One run, completely described: its key names its result.

    Attributes:
        horizon: Updates.
        checkpoints: Numbers of updates after which the error is recorded.
        batch: Rows of the mini-batch of a partition.
        scale: Step t is scale / (t + offset) on a9a, scale / sqrt(horizon) throughout on the network.
    """

    problem: ProblemName
    scheme: str
    horizon: int
    seed: int
    checkpoints: tuple[int, ...]
    workers: int
    slowest: float
    batch: int
    scale: float
    offset: float
    l2: float
    rows: int
    hidden: int
    every: int

    @property
    def key(self) -> str:
        """Hash of everything that determines the result."""
        return fingerprint({**asdict(self), "checkpoints": list(self.checkpoints)})

    @property
    def name(self) -> str:
        """For people."""
        return f"{self.problem} / {SCHEMES[self.scheme].label} / {self.horizon} updates / seed {self.seed}"

    def make_problem(self) -> Problem:
        """The objective at its starting point."""
        if self.problem == "a9a":
            return LogisticProblem(self.l2)
        return NetworkProblem(self.rows, self.hidden, self.seed)

    def make_method(self) -> Method:
        """The algorithm; all take as many mini-batches a step, but for those that nobody in time holds."""
        scheme = SCHEMES[self.scheme]
        if scheme.code is None:
            return MinibatchSGD()
        return GradientCoding(scheme.code, scheme.bits, "dither", "own", self.workers)

    def make_cluster(self) -> SimulatedCluster:
        """Workers that straggle with probabilities from 0.05 up, or never."""
        if SCHEMES[self.scheme].code is None:
            return SimulatedCluster(FixedTimes([1.0] * self.workers), seed=self.seed)
        return SimulatedCluster(
            BernoulliStragglers(np.linspace(0.05, self.slowest, self.workers).tolist()), seed=self.seed
        )

    def step_size(self, index: int) -> float:
        """Step size of update `index`, counted from 0."""
        if self.problem == "a9a":
            return self.scale / (index + self.offset)
        return float(self.scale / self.horizon**0.5)


@dataclass(frozen=True)
class Study:
    """Rates of convergence of gradient coding (Song and Choi 2026, arXiv 2605.15890) beside centralised SGD.

    Attributes:
        schemes: Names out of `SCHEMES`; the first is what others are compared with.
        workers: Workers, and partitions.
        slowest: Straggling probability of the worst worker, up to 0.99; they grow linearly from 0.05.
        batch: Rows of the mini-batch of a partition.
        l2: Weight of the regulariser on a9a, at least 0.0001.
        scale: Steps on a9a are scale / (t + offset); scale has to be above 1 / (2 l2).
        offset: See scale.
        updates: Updates on a9a.
        fitted: The slope on a9a is that of the last so many powers of two of the number of updates.
        horizons: Numbers of updates on the network, each in a run of its own.
        network_scale: Steps on the network are network_scale / sqrt(horizon); up to 1,000.
        rows: Images that the network is trained on, up to 6,000.
        hidden: Units of its hidden layer.
        every: Updates between two evaluations of the whole gradient.
        seeds: Seeds of data order, stragglers, quantisation, and the network's starting point.

    Raises:
        ValueError: For a name or a number that is not allowed.
    """

    schemes: tuple[str, ...] = ("sgd", "proposed_50", "proposed_10", "osgc_10")
    workers: int = 10
    slowest: float = 0.8
    batch: int = 2
    l2: float = 0.1
    scale: float = 20.0
    offset: float = 100.0
    updates: int = 4096
    fitted: int = 3
    horizons: tuple[int, ...] = (256, 1024, 4096)
    network_scale: float = 1.0
    rows: int = 2000
    hidden: int = 16
    every: int = 4
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4)

    def __post_init__(self) -> None:
        unknown = sorted(set(self.schemes) - set(SCHEMES))
        if unknown or not self.schemes:
            raise ValueError(f"schemes must be some of {', '.join(SCHEMES)}; got {', '.join(unknown) or 'none'}.")
        if len(set(self.seeds)) < 2:
            raise ValueError(f"seeds must be two different ones at least, for an interval; got {self.seeds}.")
        check_seeds(self.seeds)
        for name in ("workers", "batch", "hidden", "every"):
            check_numbers({name: getattr(self, name)}, least=1)
        for name in self.schemes:
            if SCHEMES[name].code == "uncoded" and self.workers > SCHEMES[name].bits:
                raise ValueError(
                    f"workers must be at most {SCHEMES[name].bits}, one bit each, with {name}; got {self.workers}."
                )
        check_rows(self.rows)
        check_numbers({"horizons": self.horizons}, least=1)
        check_numbers({"slowest": self.slowest}, least=0.05, most=0.99)
        # Where weights overflow there is no error to measure.
        check_numbers({"network_scale": self.network_scale}, above=0, most=1_000)
        check_numbers({"l2": self.l2}, least=_LEAST_L2)
        check_numbers({"scale": self.scale, "offset": self.offset}, above=0)
        if len(set(self.horizons)) < 3:
            raise ValueError(f"horizons must be three different ones at least, for a slope; got {self.horizons}.")
        if self.fitted < 1 or self.updates < 2 ** (self.fitted + 3):
            raise ValueError(f"updates must be at least 2^(fitted + 3), got {self.updates} with fitted {self.fitted}.")
        if not self.scale * self.l2 > 0.5:
            raise ValueError(
                f"scale must be above 1 / (2 l2) = {0.5 / self.l2:g}, or the error falls more slowly than 1 / T "
                f"whatever the gradients; got {self.scale:g}."
            )
        if self.scale * self.l2 > self.offset:
            raise ValueError(
                f"offset must be at least scale * l2 = {self.scale * self.l2:g}, or the regulariser alone overshoots "
                f"in the first steps; got {self.offset:g}."
            )

    def runs(self, problem: ProblemName, scheme: str, seed: int) -> list[Run]:
        """The runs that make one curve: one on a9a, one per horizon on the network."""
        if problem == "a9a":
            return [self._run(problem, scheme, seed, self.updates, self._checkpoints())]
        return [self._run(problem, scheme, seed, horizon, (horizon,)) for horizon in sorted(set(self.horizons))]

    def _checkpoints(self) -> tuple[int, ...]:
        """Sixteen to every power of two, where there are so many."""
        count = int(16 * np.log2(self.updates / 16)) + 1
        return tuple(sorted({round(self.updates * 2 ** (-n / 16)) for n in range(count)}))

    def _run(self, problem: ProblemName, scheme: str, seed: int, horizon: int, checkpoints: tuple[int, ...]) -> Run:
        convex = problem == "a9a"
        return Run(
            problem,
            scheme,
            horizon,
            seed,
            checkpoints,
            workers=self.workers,
            slowest=self.slowest,
            batch=self.batch,
            scale=self.scale if convex else self.network_scale,
            offset=self.offset if convex else 0.0,
            l2=self.l2 if convex else 0.0,
            rows=0 if convex else self.rows,
            hidden=0 if convex else self.hidden,
            every=self.every,
        )
