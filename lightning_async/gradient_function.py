"""The gradients that the plain loop is given by its user, checked."""

from __future__ import annotations

from collections.abc import Callable, Sequence, Sized

from torch import Tensor

from lightning_async.methods import Gradient
from lightning_async.simulation import Job


class GradientFunction:
    """The user's function of a job, with a check of what it returns.

    A step of one job pays for a check at its first gradient only: the optimizer would refuse later ones that are wrong,
    and `explain` then says why. Gradients that meet others in a mean are all checked, as adding them would broadcast.

    Args:
        function: the user's.
        parameters: what it is a gradient with respect to.
        check_all: whether every gradient is checked.

    Raises:
        TypeError: if `function` cannot be called.
    """

    def __init__(
        self, function: Callable[[Job], Gradient], parameters: Sequence[Tensor], *, check_all: bool = False
    ) -> None:
        if not callable(function):
            raise TypeError(f"gradient_fn must be a function of a job that returns its gradient, got {function!r}")
        self._function = function
        self._parameters = parameters
        self._check_all = check_all
        self._checked = False
        self._last: Gradient | None = None

    def __call__(self, job: Job, position: int = 0) -> Gradient:
        """The gradient of a job, the `position`-th of its step.

        Raises:
            TypeError: if an entry is not a tensor or None.
            ValueError: if it is not one entry per parameter, of the shape, dtype and device of the parameter.
        """
        self._last = None
        for p in self._parameters:
            p.grad = None  # so that what `backward` puts there is a tensor of its own, and belongs to the method
        gradient = self._function(job)
        if not self._checked or not isinstance(gradient, (list, tuple)) or len(gradient) != len(self._parameters):
            check_gradient(gradient, self._parameters)
            self._checked = not self._check_all
        self._last = gradient
        return gradient

    def explain(self) -> None:
        """Refuse the last gradient if it is what a step has failed for.

        Raises:
            TypeError: as for a call.
            ValueError: as for a call.
        """
        if self._last is not None:
            check_gradient(self._last, self._parameters)


def check_gradient(gradient: object, parameters: Sequence[Tensor]) -> None:
    """Refuse what is not a gradient with respect to `parameters`.

    Raises:
        TypeError: if an entry is not a tensor or None.
        ValueError: if it is not one entry per parameter, of the shape, dtype and device of the parameter.
    """
    if isinstance(gradient, (Tensor, str)) or not isinstance(gradient, Sequence) or len(gradient) != len(parameters):
        scalar = isinstance(gradient, Tensor) and gradient.ndim == 0
        length = f" of length {len(gradient)}" if isinstance(gradient, Sized) and not scalar else ""
        raise ValueError(
            f"gradient_fn must return a sequence of one tensor per parameter, {len(parameters)} in all, in a list or "
            f"tuple, got {type(gradient).__name__}{length}"
        )
    for index, (g, p) in enumerate(zip(gradient, parameters, strict=True)):
        if g is None:
            continue
        if not isinstance(g, Tensor):
            raise TypeError(
                f"gradient_fn must return tensors, or None for a parameter that took no part, got {type(g).__name__} "
                f"for parameter {index}; convert it, for example with torch.as_tensor"
            )
        if g.shape != p.shape or g.dtype != p.dtype or g.device != p.device:
            raise ValueError(
                f"gradient_fn must return for parameter {index} a tensor of its shape {tuple(p.shape)}, {p.dtype}, on "
                f"{p.device}, got shape {tuple(g.shape)}, {g.dtype}, on {g.device}"
            )
