"""What the study consists of: configuration, and the runs that follow from it."""

from __future__ import annotations

import itertools
from dataclasses import asdict, dataclass

from lightning_async.cli.compare.configuration import fingerprint
from recipes.heavy_tails.noise import LAWS
from recipes.heavy_tails.objectives import OBJECTIVES
from recipes.studies import check_numbers

__all__ = ["LABELS", "METHODS", "Run", "Study"]

METHODS = ("vanilla", "clipped")
LABELS = {"vanilla": "ASGD", "clipped": "Clipped ASGD", "bowl": "quadratic", "rippled": "rippled (not convex)"}

_MEASURE = "norms at every iterate"


@dataclass(frozen=True)
class Run:
    """All seeds of one setting, which is completely described: its key names its result.

    Attributes:
        objective: bowl or rippled.
        theta: Tail parameter of the noise.
        noise: Root mean square of its norm.
        slowdown: D, the time of the slow half of the workers; the fast half takes 1.
        method: vanilla or clipped.
        step: Constant step size.
        clip: Clipping radius; None for vanilla.
        dimension: d.
        workers: n.
        start: Every coordinate of x_0.
        updates: Server updates K.
        eps: Gradient norm that counts as stationary.
        seeds: Seeds 0, ..., seeds - 1.
        law: symmetric or skewed noise.
    """

    objective: str
    theta: float
    noise: float
    slowdown: float
    method: str
    step: float
    clip: float | None
    dimension: int
    workers: int
    start: float
    updates: int
    eps: float
    seeds: int
    law: str

    @property
    def key(self) -> str:
        """Hash of everything that determines the result."""
        return fingerprint({**asdict(self), "measure": _MEASURE})

    @property
    def name(self) -> str:
        """For people."""
        return (
            f"{self.objective} / theta {self.theta:g} / noise {self.noise:g} / D {self.slowdown:g} / "
            f"{LABELS[self.method]} / step {self.step:g}"
        )


@dataclass(frozen=True)
class Study:
    """Claims of Erickson and Johansson 2026 (arXiv 2606.13287) under noise whose tail is known.

    Attributes:
        thetas: Tail parameters of the noise, from 0.01 to 50.
        noises: Levels of the noise, root mean squares of its norm.
        slowdowns: D, at least 1.
        steps: Constant step sizes, the same for both methods.
        shown_step: The step size of the figures and of the tables that show one step.
        clip: Clipping radius.
        eps: Gradient norm that counts as stationary.
        seeds: Number of seeds.
        updates: Server updates of a run.
        dimension: d.
        workers: n >= 2, half of them slow.
        start: Every coordinate of x_0.
        objectives: bowl, rippled.
        law: symmetric or skewed noise.

    Raises:
        ValueError: For a name or a number that is not allowed.
    """

    thetas: tuple[float, ...] = (0.5, 1.0, 2.0)
    noises: tuple[float, ...] = (0.25, 1.0)
    slowdowns: tuple[float, ...] = (2.0, 4.0, 8.0, 16.0, 32.0, 64.0)
    steps: tuple[float, ...] = (2.0**-6, 2.0**-5, 2.0**-4, 2.0**-3)
    shown_step: float = 2.0**-4
    clip: float = 1.0
    eps: float = 0.5
    seeds: int = 200
    updates: int = 6_000
    dimension: int = 10
    workers: int = 16
    start: float = 4.0
    objectives: tuple[str, ...] = ("bowl", "rippled")
    law: str = "symmetric"

    def __post_init__(self) -> None:
        unknown = sorted(set(self.objectives) - set(OBJECTIVES))
        if unknown or not self.objectives:
            raise ValueError(f"objectives must be some of {', '.join(OBJECTIVES)}; got {', '.join(unknown) or 'none'}.")
        if self.law not in LAWS:
            raise ValueError(f"law must be one of {', '.join(LAWS)}; got {self.law!r}.")
        for name in ("thetas", "noises", "slowdowns", "steps"):
            values = getattr(self, name)
            if not values or not all(value > 0 for value in values) or len(set(values)) != len(values):
                raise ValueError(f"{name} must be different positive numbers, got {values}.")
        # Of the moments of the noise, and of iterates that diverge, none may overflow.
        check_numbers({"thetas": self.thetas}, least=0.01, most=50)
        check_numbers({"noises": self.noises, "steps": self.steps}, above=0, most=1e6)
        check_numbers({"slowdowns": self.slowdowns}, least=1)
        check_numbers({"clip": self.clip, "eps": self.eps}, above=0)
        check_numbers({"start": self.start}, least=-1_000, most=1_000)
        for name, least in (("seeds", 10), ("updates", 10), ("dimension", 1), ("workers", 2)):
            if getattr(self, name) < least:
                raise ValueError(f"{name} must be at least {least}, got {getattr(self, name)}.")
        if self.shown_step not in self.steps:
            raise ValueError(f"shown_step must be one of the steps {self.steps}, got {self.shown_step}.")

    def run(
        self,
        objective: str,
        theta: float,
        noise: float,
        slowdown: float,
        method: str,
        step: float,
    ) -> Run:
        """The run of one setting."""
        return Run(
            objective,
            theta,
            noise,
            slowdown,
            method,
            step,
            clip=self.clip if method == "clipped" else None,
            dimension=self.dimension,
            workers=self.workers,
            start=self.start,
            updates=self.updates,
            eps=self.eps,
            seeds=self.seeds,
            law=self.law,
        )

    def runs(self) -> list[Run]:
        """All of them."""
        axes = (self.objectives, self.thetas, self.noises, self.slowdowns, METHODS, self.steps)
        return [self.run(*setting) for setting in itertools.product(*axes)]
