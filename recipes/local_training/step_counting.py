"""Time to a target on a9a, against a count of the local steps that the average model keeps."""

from __future__ import annotations

from dataclasses import dataclass

from recipes.local_training.logistic import Setting, Variant, time_to_target

__all__ = ["StepCounting", "predicted_ratios"]


def predicted_ratios(before: float, during: float, sparsity: float) -> dict[Variant, float]:
    """How many times longer than with the corrected merge a target takes, by counting the steps of a round.

    With N local steps before the message and Q while it travels, the average model keeps N + Q with the corrected
    merge, N without overlap, and N + (1 - p) Q if what was sent is overwritten.

    Args:
        before: local steps N of a worker before the message.
        during: local steps Q while it travels.
        sparsity: p, the fraction of the coordinates that is sent.

    Example:
        >>> predicted_ratios(before=4, during=16, sparsity=0.5)
        {'corrected': 1.0, 'overwrite': 1.6666666666666667, 'blocking': 5.0}
    """
    steps = before + during
    return {"corrected": 1.0, "overwrite": steps / (before + (1 - sparsity) * during), "blocking": steps / before}


@dataclass(frozen=True)
class StepCounting:
    """Equal workers, one unit of time per local step, one step size for all variants.

    Args:
        workers: number of workers.
        window: logical time for local steps before a message, N.
        travel: logical time of a message, Q.
        sparsity: p, the fraction of the coordinates that is sent.
        lr: step size.
        target: value of the training objective that the average model has to reach.
    """

    workers: int = 8
    window: float = 4.0
    travel: float = 16.0
    sparsity: float = 0.5
    lr: float = 0.5
    target: float = 0.335

    @property
    def predicted(self) -> dict[Variant, float]:
        """Times over that of the corrected merge, as step counting has them."""
        return predicted_ratios(self.window, self.travel, self.sparsity)

    def time(self, variant: Variant, seed: int) -> float:
        """Logical time to the target; infinite if it is not reached within 10,000."""
        setting = Setting(variant, self.sparsity, self.window, self.travel, workers=self.workers)
        return time_to_target(setting, self.lr, seed, self.target, max_time=10_000.0)
