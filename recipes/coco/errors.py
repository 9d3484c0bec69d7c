"""Measured errors of decoded gradients on the classifier: ``python -m recipes.coco.errors``.

Trains the small network on composed scenes for a while without any coding, stops, and lets several codes estimate the
gradient there, round after round, at a step size of zero.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jsonargparse import ArgumentParser
from rich.console import Console
from rich.table import Table
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

from lightning_async import SimulatedCluster, simulate
from lightning_async.methods import GradientCoding
from lightning_async.simulation import BernoulliStragglers, Job
from recipes.coco.classifier import MultiLabelClassifier
from recipes.coco.images import MultiLabelImages

__all__ = ["Point", "measured_errors"]

SCHEMES = {
    "Proposed": ("interval", "own"),
    "Proposed, set-aware": ("interval", "set_aware"),
    "OSGC": ("osgc", "own"),
    "SGC": ("sgc", "own"),
    "EHD": ("ehd", "own"),
    "Uncoded": ("uncoded", "own"),
    "Survivors": ("survivors", "own"),
}
"""Label: code and decoder."""

STRAGGLING = (0.05, 0.133, 0.217, 0.3, 0.383, 0.467, 0.55, 0.633, 0.717, 0.8)
"""As in configs/compare/gradient_coding_10bits.yaml."""

_SETS = 50
"""Rounds with mini-batches of their own; then they come again, with other stragglers."""


class Point:
    """A place on the way of training, and the gradients of mini-batches there.

    Args:
        updates: Steps of SGD before, on as many images as all partitions have together.
        batch: Images of a partition.
        lr: Step size of that training.
        scenes: Composed scenes.
        seed: Of the network and the mini-batches.
    """

    def __init__(self, updates: int, batch: int, lr: float, scenes: int, seed: int = 0) -> None:
        data = MultiLabelImages(train_scenes=scenes, val_scenes=1, batch_size=batch)
        data.setup()
        self._data, self._batch, self._scenes, self._seed = data.train_set, batch, scenes, seed
        torch.manual_seed(seed)
        self._module = MultiLabelClassifier("scene_cnn")
        self.parameters: list[Tensor] = list(self._module.parameters())
        optimizer = torch.optim.SGD(self.parameters, lr=lr)
        self._known: dict[int, list[Tensor]] = {}
        self.loss = math.nan
        for update in range(updates):
            optimizer.zero_grad()
            loss = self._loss((1, update), batch * len(STRAGGLING))
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            self.loss = loss.item()

    def gradient(self, number: int) -> list[Tensor]:
        """Gradient of the mini-batch of a number, computed once."""
        if number not in self._known:
            loss = self._loss((0, number), self._batch)
            self._known[number] = list(torch.autograd.grad(loss, self.parameters))
        return [g.clone() for g in self._known[number]]

    def correlation(self, count: int) -> float:
        """Correlation of the gradients of two partitions: mean inner product over mean square."""
        rows = [torch.cat([g.flatten() for g in self.gradient(10**6 + n)]).double() for n in range(count)]
        products = torch.stack(rows) @ torch.stack(rows).T
        squares = products.trace()
        return float((products.sum() - squares) / (count - 1) / squares)

    def _loss(self, number: tuple[int, int], count: int) -> Tensor:
        rows = np.random.default_rng([self._seed, *number]).integers(0, self._scenes, count).tolist()
        images, labels = self._data.__getitems__(rows)
        return binary_cross_entropy_with_logits(self._module(images), labels)


@dataclass(frozen=True)
class Measured:
    """Relative squared error of one scheme: mean over rounds, and standard error."""

    scheme: str
    mean: float
    error: float


def measured_errors(point: Point, bits: int, rounds: int, schemes: Sequence[str], seed: int = 0) -> list[Measured]:
    """E||ghat - g||^2 / ||g||^2 of codes at one place; a round in which nothing arrives has error 1.

    Args:
        point: The place.
        bits: Bits a coordinate over all workers.
        rounds: Rounds to average over.
        schemes: Names out of `SCHEMES`.
        seed: Of stragglers and quantisation.
    """
    found = []
    for scheme in schemes:
        code, decoder = SCHEMES[scheme]
        method = GradientCoding(code, bits, "dither", decoder, len(STRAGGLING), measure_error=True)  # type: ignore[arg-type]
        cluster = SimulatedCluster(BernoulliStragglers(STRAGGLING), seed=seed)
        optimizer = torch.optim.SGD(point.parameters, lr=0.0)

        def gradient(job: Job) -> list[Tensor]:
            return point.gradient(job.number % (_SETS * len(STRAGGLING)))

        steps = simulate(method, cluster, point.parameters, optimizer, gradient, max_steps=rounds)
        errors = [method.metrics(step).get("relative_error", 1.0) for step in steps]
        found.append(Measured(scheme, float(np.mean(errors)), float(np.std(errors, ddof=1)) / math.sqrt(rounds)))
    return found


def main(arguments: list[str] | None = None) -> int:
    """Print the measured errors at the start and after some training."""
    parser = ArgumentParser(prog="python -m recipes.coco.errors", description=main.__doc__)
    parser.add_argument("--updates", type=list[int], default=[0, 150], help="updates of SGD before")
    parser.add_argument("--bits", type=list[int], default=[10, 50], help="bits a coordinate over all workers")
    parser.add_argument("--rounds", type=int, default=200, help="rounds to average over")
    parser.add_argument("--batch", type=int, default=8, help="images of a partition")
    parser.add_argument("--scenes", type=int, default=2000, help="composed scenes")
    parser.add_argument("--lr", type=float, default=1.0, help="step size of the training before")
    options = parser.parse_args(sys.argv[1:] if arguments is None else arguments)
    torch.set_num_threads(1)
    console = Console()
    for updates in options.updates:
        point = Point(updates, options.batch, options.lr, options.scenes)
        title = f"After {updates} updates: correlation of partitions {point.correlation(40):.2f}"
        table = Table("scheme", *(f"{bits} bits" for bits in options.bits), title=title, title_justify="left")
        columns = [measured_errors(point, bits, options.rounds, list(SCHEMES)) for bits in options.bits]
        for row in zip(*columns, strict=True):
            table.add_row(row[0].scheme, *(f"{cell.mean:.3g} ± {cell.error:.2g}" for cell in row))
        console.print(table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
