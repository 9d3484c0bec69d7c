"""The gradient noise at one moment: what is logged of it, and its plot."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from lightning_async.tail_index import SubWeibullTail

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class GradientNoise:
    """The gradient noise at one moment.

    Attributes:
        step: server updates made: the noise is that at x_step.
        errors: norms of the gradient errors of the mini-batches.
        gradient_norm: norm of the mean gradient, which the errors are distances to.
        nonfinite: mini-batches that were left out, as their gradient was missing, NaN or infinite.
        tail: the fitted law; None if the errors allow none.
    """

    step: int
    errors: npt.NDArray[np.float64]
    gradient_norm: float
    nonfinite: int
    tail: SubWeibullTail | None

    @property
    def metrics(self) -> dict[str, float]:
        """What is logged."""
        values = {"gradient_norm": self.gradient_norm, "nonfinite": float(self.nonfinite)}
        if len(self.errors):
            values["rms"] = float(np.sqrt(np.mean(self.errors**2)))
        if self.tail is not None:
            low, high = self.tail.interval
            values |= {"theta": self.tail.theta, "theta_low": low, "theta_high": high, "scale": self.tail.scale}
            values["order_statistics"] = float(self.tail.num_order_statistics)
        return {f"gradient_noise/{name}": value for name, value in values.items()}

    def figure(self) -> Figure:
        """Sorted errors against log(m / i), on logarithmic axes, where a sub-Weibull tail is a line of slope theta."""
        from matplotlib.figure import Figure

        figure = Figure(figsize=(4.6, 3.4), layout="constrained")
        axis = figure.subplots()
        count = len(self.errors)
        # The smallest error has log(m / m) = 0, which a logarithmic axis does not have.
        exponent = np.log(count / np.arange(1, count))
        axis.plot(exponent, np.sort(self.errors)[::-1][: count - 1], ".", color="#0072B2", markersize=4, label="errors")
        title = f"step {self.step:,}"
        if self.tail is not None:
            k, (low, high) = self.tail.num_order_statistics, self.tail.interval
            law = self.tail.fitted_errors()[: count - 1]
            axis.plot(exponent, law, "--", color="#D55E00", linewidth=1.0, label="fitted law")
            axis.plot(exponent[:k], law[:k], color="#D55E00", linewidth=2.0, label=f"fitted to the {k} largest")
            title += f": theta = {self.tail.theta:.2f} [{low:.2f}, {high:.2f}]"
        axis.set(xscale="log", yscale="log", xlabel="log(m / i)", ylabel="i-th largest of m errors", title=title)
        if len(positive := self.errors[self.errors > 0]):
            axis.set_ylim(positive.min() / 1.2, positive.max() * 1.2)  # the law is about the tail, far below the rest
        axis.grid(alpha=0.25, linewidth=0.5)
        axis.legend(frameon=False, fontsize=8)
        return figure
