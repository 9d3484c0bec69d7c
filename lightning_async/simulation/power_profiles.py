"""Computing power of one worker over time, for `PowerTimes`."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import pairwise
from typing import cast

from typing_extensions import override

from lightning_async.arguments import real, reals
from lightning_async.described import Described

# A job whose missing work is below this is finished: otherwise rounding alone could make it wait for an outage to end.
_NEGLIGIBLE_WORK = 1e-12
_EPS = 2.0**-52


class Power(Described, ABC):
    """Power p(t) >= 0 of one worker: gradients per unit of logical time that it can compute at time t >= 0."""

    @abstractmethod
    def at(self, time: float) -> float:
        """Power at `time`."""

    @abstractmethod
    def work(self, start: float, end: float) -> float:
        """Work that can be done between two times, in gradients: the integral of the power."""

    @abstractmethod
    def duration(self, start: float) -> float:
        """Time that a job takes that starts at `start`; `math.inf` if the worker's power never suffices."""


class ConstantPower(Power):
    """The same power at all times; with power 0 no job ever finishes.

    Args:
        value: gradients per unit of logical time, at least 0.

    Raises:
        TypeError: if the value is not a number.
        ValueError: if the value is negative or not finite.

    Example:
        >>> ConstantPower(4.0).duration(start=10.0)
        0.25
    """

    def __init__(self, value: float = 1.0) -> None:
        self.value = real("value", value, at_least=0.0)

    @override
    def at(self, time: float) -> float:
        return self.value

    @override
    def work(self, start: float, end: float) -> float:
        return self.value * (end - start)

    @override
    def duration(self, start: float) -> float:
        return 1.0 / self.value if self.value > 0.0 else math.inf


class PiecewisePower(Power):
    """Power that is constant between breakpoints.

    Args:
        breakpoints: times b_1 < ... < b_m at which the power changes, above 0.
        values: m + 1 powers, each at least 0: before b_1, from b_1 to b_2, ..., from b_m on.
        period: time after which the profile starts again, above b_m; None if the last value holds for ever.

    Raises:
        TypeError: if times or powers are not numbers.
        ValueError: if the times are not increasing, the counts do not match, or a power is negative or not finite.

    Example:
        >>> PiecewisePower([2.0], [1.0, 0.5]).duration(start=1.5)
        1.5
    """

    def __init__(self, breakpoints: Sequence[float], values: Sequence[float], period: float | None = None) -> None:
        self.breakpoints = reals("breakpoints", breakpoints, above=0.0)
        self.values = reals("values", values, at_least=0.0)
        self.period = None if period is None else real("period", period, above=0.0)
        if len(self.values) != len(self.breakpoints) + 1:
            raise ValueError(
                f"values needs one power before each breakpoint and one after the last: {len(self.breakpoints) + 1} "
                f"for {len(self.breakpoints)} breakpoints, got {len(self.values)}"
            )
        self._edges = (0.0, *self.breakpoints, math.inf if self.period is None else self.period)
        for earlier, later in pairwise(self._edges):
            if not earlier < later:
                last = "" if self.period is None else f" and end before the period, {self.period}"
                raise ValueError(f"breakpoints must increase{last}; {earlier} is not before {later}")
        done = [0.0]
        for power, (begin, end) in zip(self.values, pairwise(self._edges), strict=True):
            done.append(done[-1] + (power * (end - begin) if power > 0.0 else 0.0))
        self._done = tuple(done)  # work from 0 to each edge

    @override
    def at(self, time: float) -> float:
        if self.period is not None:
            time %= self.period
        return self.values[bisect_right(self.breakpoints, time)]

    @override
    def work(self, start: float, end: float) -> float:
        if self.period is None:
            return self._until(end) - self._until(start)
        rounds = end // self.period - start // self.period
        return rounds * self._done[-1] + (self._until(end % self.period) - self._until(start % self.period))

    @override
    def duration(self, start: float) -> float:
        if self.period is not None:
            start %= self.period
        segment = bisect_right(self.breakpoints, start)
        power = self.values[segment]
        if power * (self._edges[segment + 1] - start) >= 1.0:
            return 1.0 / power
        target = self._until(start) + 1.0
        enough = target - min(_NEGLIGIBLE_WORK + 4 * _EPS * target, 0.5)
        total = self._done[-1]
        if self.period is None:
            return self._time_of(target, enough) - start
        if total == 0.0 or enough / total == math.inf:
            return math.inf
        rounds = max(0, math.ceil(enough / total) - 1)  # whole periods after which some work is still missing
        rest = enough - rounds * total
        if rest <= 0.0:  # the quotient was rounded up
            rounds, rest = rounds - 1, total
        return rounds * self.period + self._time_of(target - rounds * total, min(rest, total)) - start

    def _until(self, time: float) -> float:
        """Work from 0 to a time within the first period."""
        segment = bisect_right(self.breakpoints, time)
        return self._done[segment] + self.values[segment] * (time - self._edges[segment])

    def _time_of(self, target: float, enough: float) -> float:
        """First time at which the work from 0 is `target`, in the segment in which it reaches `enough`."""
        if enough > self._done[-1]:
            return math.inf
        segment = max(bisect_left(self._done, enough) - 1, 0)
        begin, end = self._edges[segment], self._edges[segment + 1]
        return min(begin + (target - self._done[segment]) / self.values[segment], end)


class OutagePower(PiecewisePower):
    """Constant power with outages: a job that is caught by one goes on where it was when the outage ends.

    Args:
        outages: pairs (begin, end) of times without power, in order, not overlapping; an end may be infinite.
        power: gradients per unit of logical time outside the outages, above 0.
        period: time after which the outages come again; None if they do not.

    Raises:
        TypeError: if the outages are not pairs of numbers.
        ValueError: if the outages are out of order or reach beyond the period, or the power is not positive.

    Example:
        >>> OutagePower([(2.0, 5.0)]).duration(start=1.5)
        4.0
    """

    def __init__(self, outages: Sequence[tuple[float, float]], power: float = 1.0, period: float | None = None) -> None:
        self.power = real("power", power, above=0.0)
        checked: list[tuple[float, float]] = []
        limit = math.inf if period is None else real("period", period, above=0.0)
        changes = {0.0: self.power}
        for number, outage in enumerate(_pairs(outages)):
            begin, end = outage
            end = end if isinstance(end, float) and end == math.inf else real(f"end of outages[{number}]", end)
            begin = real(f"begin of outages[{number}]", begin, at_least=checked[-1][1] if checked else 0.0)
            if not begin < end <= limit:
                raise ValueError(
                    f"outages[{number}] must end after it begins"
                    f"{'' if period is None else f' and within the period, {period}'}; got ({begin}, {end})"
                )
            checked.append((begin, float(end)))
            changes[begin] = 0.0
            if end < limit:
                changes[float(end)] = self.power
        self.outages = tuple(checked)
        super().__init__(list(changes)[1:], list(changes.values()), period)


def _pairs(outages: object) -> Sequence[tuple[float, float]]:
    if isinstance(outages, (str, bytes)) or not isinstance(outages, Sequence):
        raise TypeError(f"outages must be a sequence of pairs (begin, end), got {outages!r}")
    for number, outage in enumerate(outages):
        if isinstance(outage, (str, bytes)) or not isinstance(outage, Sequence) or len(outage) != 2:
            raise TypeError(f"outages[{number}] must be a pair (begin, end), got {outage!r}")
    return cast("Sequence[tuple[float, float]]", outages)


class SinusoidalPower(Power):
    """Power mean + amplitude * sin(2 pi t / period + phase).

    Args:
        mean: mean power, gradients per unit of logical time, above 0.
        amplitude: from -mean to mean.
        period: in logical time, above 0.
        phase: in radians.

    Raises:
        TypeError: if an argument is not a number.
        ValueError: if an argument is out of range.

    Example:
        >>> SinusoidalPower(mean=1.0, amplitude=0.5, period=0.25).duration(start=3.0)
        1.0
    """

    def __init__(self, mean: float = 1.0, amplitude: float = 0.5, period: float = 1.0, phase: float = 0.0) -> None:
        self.mean = real("mean", mean, above=0.0)
        self.amplitude = real("amplitude", amplitude)
        self.period = real("period", period, above=0.0)
        self.phase = real("phase", phase)
        if abs(self.amplitude) > self.mean:
            raise ValueError(
                f"amplitude must be between -mean and mean, so that power is never negative; "
                f"got amplitude {self.amplitude} with mean {self.mean}"
            )
        self._frequency = 2 * math.pi / self.period

    @override
    def at(self, time: float) -> float:
        return self.mean + self.amplitude * math.sin(self._angle(time))

    @override
    def work(self, start: float, end: float) -> float:
        return self._work_after(self._angle(start), end - start)

    @override
    def duration(self, start: float) -> float:
        angle = self._angle(start)
        periods = math.floor(1.0 / (self.mean * self.period))
        missing = 1.0 - periods * self.mean * self.period
        return periods * self.period + self._solve(angle, missing)

    def _angle(self, time: float) -> float:
        return self._frequency * (time % self.period) + self.phase

    def _work_after(self, angle: float, time: float) -> float:
        half = self._frequency * time / 2  # cos(a) - cos(a + 2h) = 2 sin(a + h) sin(h), without the cancellation
        return self.mean * time + 2 * self.amplitude / self._frequency * math.sin(angle + half) * math.sin(half)

    def _solve(self, angle: float, work: float) -> float:
        """The time within one period after which `work` is done: Newton's method, kept within a bracket."""
        low, high = 0.0, self.period
        time = min(work / self.mean, high)
        for _ in range(200):
            error = self._work_after(angle, time) - work
            if error > 0.0:
                high = time
            else:
                low = time
            power = self.mean + self.amplitude * math.sin(angle + self._frequency * time)
            step = error / power if power > 0.0 else math.inf
            candidate = time - step if low < time - step < high else (low + high) / 2
            if abs(candidate - time) <= 4 * _EPS * candidate or candidate in (low, high):
                return candidate
            time = candidate
        return time
