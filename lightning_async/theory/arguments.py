"""Check of the worker times that formulas take."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lightning_async.arguments import array


def worker_times(times: ArrayLike) -> NDArray[np.float64]:
    """Times of one gradient, sorted; infinite for a worker that never answers.

    Raises:
        TypeError: if they are not numbers.
        ValueError: if there is none, one is not positive, or all are infinite.
    """
    given = array("times", times)
    if given.ndim != 1 or given.size == 0:
        raise ValueError(f"times has shape {given.shape}; give one positive time for each of at least one worker")
    given = np.sort(given)
    if not given[0] > 0 or np.isnan(given).any():
        raise ValueError(f"times holds {given[0] if given[0] <= 0 else 'nan'}; every time must be positive")
    if not np.isfinite(given[0]):
        raise ValueError("times are all infinite: at least one worker must answer")
    return given
