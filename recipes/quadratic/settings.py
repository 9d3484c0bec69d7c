"""What a study of the quadratic consists of: configuration, and the runs that follow from it."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Literal

import torch

from lightning_async import SimulatedCluster
from lightning_async.cli.compare.configuration import fingerprint, numbers
from lightning_async.methods import DelayAdaptiveASGD, Method, ParameterAgnosticRingmaster, RennalaSGD, RingmasterASGD
from lightning_async.optim import LMO
from lightning_async.simulation import HalfNormalNoise
from recipes.studies import check_numbers, check_seeds

__all__ = ["LABELS", "PROFILES", "Grid", "Profile", "Run", "Study"]

LABELS = {
    "ringmaster": "Ringmaster",
    "parameter_agnostic": "Parameter-agnostic Ringmaster",
    "rennala": "Rennala",
    "delay_adaptive": "Delay-adaptive ASGD",
}
PROFILES = {"uniform": lambda i: 1.0, "sqrt": math.sqrt, "linear": float}


@dataclass(frozen=True)
class Grid:
    """What is searched for one method.

    Attributes:
        step: Step sizes, as a list of numbers or as a range of powers such as ``5^-6..5^1``.
        count: Thresholds R of Ringmaster, batches B of Rennala; the other methods have none.
    """

    step: list[float] | str
    count: list[int] | None = None


@dataclass(frozen=True)
class Profile:
    """One profile of worker times.

    Attributes:
        horizon: Logical time that a run may use.
        target: Gap f(x) - min f whose first passage is timed.
    """

    horizon: float
    target: float


@dataclass(frozen=True)
class Run:
    """One run, completely described: its key names its result.

    Attributes:
        stop: Gap at which the run ends; None to use the whole horizon.
    """

    profile: str
    method: str
    step: float
    count: int | None
    seed: int
    stop: float | None
    horizon: float
    evaluations: int
    dimension: int
    workers: int
    noise: float
    steps: Literal["sgd", "lmo"]

    @property
    def key(self) -> str:
        """Hash of everything that determines the result."""
        return fingerprint({**asdict(self), "measure": "standing iterate"})

    @property
    def name(self) -> str:
        """For people."""
        count = "" if self.count is None else f" {'R' if self.method == 'ringmaster' else 'B'} = {self.count}"
        return f"{self.profile} / {LABELS[self.method]}{count} / step {self.step:g} / seed {self.seed}"

    def make_method(self) -> Method:
        """The schedule."""
        if self.method == "parameter_agnostic":
            return ParameterAgnosticRingmaster()
        if self.method == "delay_adaptive":
            return DelayAdaptiveASGD()
        assert self.count is not None
        return RingmasterASGD(self.count) if self.method == "ringmaster" else RennalaSGD(self.count)

    def make_optimizer(self, x: torch.Tensor) -> torch.optim.Optimizer:
        """Plain SGD, or the oracle of the Euclidean ball; the parameter-agnostic method is defined with the latter."""
        if self.steps == "sgd" and self.method != "parameter_agnostic":
            return torch.optim.SGD([x], lr=self.step)
        return LMO([x], lr=self.step, momentum=0.95, norm="euclidean")

    def make_cluster(self) -> SimulatedCluster:
        """Worker i takes 1 + s_i + abs(N(0, 1 + s_i^2)), with s_i = 1, sqrt(i) or i."""
        slow = [PROFILES[self.profile](i) for i in range(1, self.workers + 1)]
        times = HalfNormalNoise([1.0 + s for s in slow], std=[math.sqrt(1.0 + s * s) for s in slow])
        return SimulatedCluster(times, seed=self.seed)


@dataclass(frozen=True)
class Study:
    """The quadratic experiment of Sadiev et al. 2026 (arXiv 2605.18174).

    Attributes:
        profiles: By name, uniform, sqrt or linear: horizon and target.
        methods: By name (ringmaster, parameter_agnostic, rennala, delay_adaptive) what is searched.
        dimension: d.
        workers: n.
        noise: Standard deviation per coordinate of a gradient.
        steps: Steps of Ringmaster, Rennala and delay-adaptive ASGD: along the gradient ("sgd"), or of length eta along
            averaged momentum 0.95 ("lmo", the Euclidean ball). The parameter-agnostic method always takes the latter.
        evaluations: How often a run is evaluated, at equal distances of logical time.
        tuning_seeds: Seeds on which the grids are searched.
        seeds: Seeds that are reported, others than those.

    Raises:
        ValueError: For a name or a number that is not allowed.
    """

    profiles: dict[str, Profile]
    methods: dict[str, Grid]
    dimension: int = 1_729
    workers: int = 6_174
    noise: float = 0.01
    steps: Literal["sgd", "lmo"] = "sgd"
    evaluations: int = 400
    tuning_seeds: tuple[int, ...] = (100,)
    seeds: tuple[int, ...] = (0, 1, 2)

    def __post_init__(self) -> None:
        for what, given, known in (("profiles", self.profiles, PROFILES), ("methods", self.methods, LABELS)):
            unknown = sorted(set(given) - set(known))
            if unknown or not given:
                raise ValueError(f"{what} must be some of {', '.join(known)}; got {', '.join(unknown) or 'none'}.")
        for name, grid in self.methods.items():
            if (name in ("ringmaster", "rennala")) != bool(grid.count):
                needs = "needs a" if not grid.count else "has no"
                raise ValueError(f"methods.{name} {needs} count: R is Ringmaster's and B is Rennala's, nobody else's.")
            if grid.count:
                check_numbers({f"methods.{name}.count": grid.count}, least=1)
            if not all(step > 0 for step in self.step_sizes(name)):
                raise ValueError(f"methods.{name}.step must be positive, got {grid.step}.")
        for name, profile in self.profiles.items():
            if not (profile.horizon > 0 and profile.target > 0):
                raise ValueError(f"profiles.{name} must have a positive horizon and target, got {profile}.")
            check_numbers({f"profiles.{name}.horizon": profile.horizon, f"profiles.{name}.target": profile.target})
        for what, least in (("dimension", 2), ("workers", 1), ("evaluations", 2)):
            if getattr(self, what) < least:
                raise ValueError(f"{what} must be at least {least}, got {getattr(self, what)}.")
        if not self.seeds or not self.tuning_seeds:
            raise ValueError("seeds and tuning_seeds need one seed at least.")
        check_seeds(self.seeds, self.tuning_seeds)
        check_numbers({"noise": self.noise}, least=0)

    def step_sizes(self, method: str) -> list[float]:
        """The step sizes to be searched."""
        return numbers(self.methods[method].step, f"methods.{method}.step")  # type: ignore[arg-type]

    def grid(self, method: str) -> Iterator[tuple[float, int | None]]:
        """The points to be searched: step size, and R or B."""
        counts: Sequence[int | None] = self.methods[method].count or [None]
        return iter(list(itertools.product(self.step_sizes(method), counts)))

    def run(self, profile: str, method: str, point: tuple[float, int | None], seed: int, *, tuning: bool) -> Run:
        """One run; those of a grid end when they arrive at the target."""
        wanted = self.profiles[profile]
        return Run(
            profile,
            method,
            *point,
            seed=seed,
            stop=wanted.target if tuning else None,
            horizon=wanted.horizon,
            evaluations=self.evaluations,
            dimension=self.dimension,
            workers=self.workers,
            noise=self.noise,
            steps=self.steps,
        )

    def tuning_runs(self, profile: str, method: str) -> Mapping[tuple[float, int | None], list[Run]]:
        """The runs that decide between the points of a grid."""
        return {
            point: [self.run(profile, method, point, seed, tuning=True) for seed in self.tuning_seeds]
            for point in self.grid(method)
        }
