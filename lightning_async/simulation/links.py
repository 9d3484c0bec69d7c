"""How long a message between server and worker takes."""

from __future__ import annotations

import math
from dataclasses import dataclass

from lightning_async.arguments import real


@dataclass(frozen=True)
class Link:
    """A connection with a fixed delay and a fixed capacity; by default messages are free.

    Args:
        latency: time that a message of any size takes, in logical time; at least 0.
        bandwidth: bytes per unit of logical time, above 0; infinite if the size makes no difference.

    Raises:
        TypeError: if an argument is not a number.
        ValueError: if an argument is out of range.

    Example:
        >>> Link(latency=0.5, bandwidth=100.0).time(num_bytes=200)
        2.5
    """

    latency: float = 0.0
    bandwidth: float = math.inf

    def __post_init__(self) -> None:
        object.__setattr__(self, "latency", real("latency", self.latency, at_least=0.0))
        object.__setattr__(self, "bandwidth", real("bandwidth", self.bandwidth, above=0.0, finite=False))

    def time(self, num_bytes: float | None = None) -> float:
        """Duration of one message: latency + num_bytes / bandwidth, in logical time.

        Args:
            num_bytes: size of the message, at least 0; may be left out if the bandwidth is infinite.

        Raises:
            ValueError: if the bandwidth is finite and no size is given, or the size is negative or not finite.
        """
        if num_bytes is None:
            if self.bandwidth < math.inf:
                raise ValueError(
                    f"{self!r} has a finite bandwidth, so that the time of a message depends on its size, and no size "
                    f"is known; give num_bytes, or use a link of infinite bandwidth"
                )
            return self.latency
        return self.latency + real("num_bytes", num_bytes, at_least=0.0) / self.bandwidth
