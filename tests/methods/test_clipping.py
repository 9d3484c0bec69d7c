"""clip_c(g) = min(1, c / ||g||) g, over all parameters together, and what it guarantees along a run."""

from __future__ import annotations

import math
from typing import Literal

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from lightning_async import simulate
from lightning_async.methods import ASGD, ClippedASGD
from lightning_async.methods.clipping import clip_by_global_norm, clipping_for
from lightning_async.methods.gradient_norm import global_norm
from lightning_async.simulation import Job, RandomTimes, SimulatedCluster, Step, TwoSpeedTimes


def norm(tensors: list[Tensor | None]) -> float:
    return float(torch.cat([t.double().flatten() for t in tensors if t is not None]).norm())


@settings(max_examples=50)
@given(scale=st.floats(1e-3, 1e30), radius=st.floats(1e-3, 1e3), seed=st.integers(0, 1000))
def test_the_norm_is_at_most_the_radius_and_the_direction_is_kept(scale: float, radius: float, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    gradient = [torch.randn(3, 4, generator=generator) * scale, None, torch.randn(5, generator=generator) * scale]
    before = [None if g is None else g.double() for g in gradient]
    clip_by_global_norm(gradient, radius)
    assert norm(gradient) <= radius * (1 + 1e-6)
    factor = min(1.0, radius / norm(before))
    for g, b in zip(gradient, before, strict=True):
        assert (g is None) == (b is None)
        if g is not None:
            torch.testing.assert_close(g.double(), factor * b, rtol=1e-5, atol=0.0)


def test_a_gradient_within_the_radius_is_left_bit_for_bit() -> None:
    gradient = [torch.tensor([3.0, 4.0]), torch.tensor(1e-30)]
    expected = [g.clone() for g in gradient]
    clip_by_global_norm(gradient, 5.0)
    assert all(map(torch.equal, gradient, expected))


@pytest.mark.parametrize("owned", [True, False])
@pytest.mark.parametrize("sizes", [(3, 4), (3,), (70_000, 4)])
@settings(max_examples=30)
@given(scale=st.floats(1e-30, 1e30), radius=st.floats(1e-3, 1e3), seed=st.integers(0, 1000))
def test_clipping_for_known_parameters_is_the_same_bit_for_bit(
    sizes: tuple[int, ...], owned: bool, scale: float, radius: float, seed: int
) -> None:
    generator = torch.Generator().manual_seed(seed)
    gradient = [torch.randn(size, generator=generator) * scale for size in sizes]
    before = [g.clone() for g in gradient]
    expected = clip_by_global_norm([*before, None], radius, in_place=False)
    clipped = clipping_for(before, radius, owned=owned)([*gradient, None])
    assert clipped is not None
    assert clipped[-1] is None
    assert all(map(torch.equal, clipped[:-1], expected[:-1]))
    assert all(map(torch.equal, gradient, clipped[:-1] if owned else before))


@pytest.mark.parametrize("owned", [True, False])
def test_what_is_not_finite_is_not_clipped(owned: bool) -> None:
    clip = clipping_for([torch.ones(2), torch.ones(2)], 1.0, owned=owned)
    assert clip([torch.ones(2), torch.tensor([1.0, math.inf])]) is None
    assert clip([torch.tensor([1.0, math.nan]), None]) is None
    assert norm(clip([torch.ones(2), torch.ones(2)])) == pytest.approx(1.0)  # the next one does not suffer for it


@pytest.mark.parametrize("owned", [True, False])
def test_a_sparse_gradient_is_clipped(owned: bool) -> None:
    sparse = torch.sparse_coo_tensor([[0, 2]], [3.0, 4.0], (4,), check_invariants=True)
    clipped = clipping_for([torch.ones(2), torch.ones(4)], 1.0, owned=owned)([torch.zeros(2), sparse])
    assert clipped is not None
    torch.testing.assert_close(clipped[1].to_dense(), torch.tensor([0.6, 0.0, 0.8, 0.0]))


def test_an_inactive_clip_is_vanilla_bit_for_bit() -> None:
    ends = []
    for method in (ASGD(), ClippedASGD(clip=1e6)):
        x = torch.linspace(-1.0, 1.0, 7)
        sgd = torch.optim.SGD([x], lr=0.1, momentum=0.5)
        for _ in simulate(method, SimulatedCluster(TwoSpeedTimes(4, 3.0)), [x], sgd, lambda job, x=x: [x.sin()], 100):
            pass
        ends.append(x)
    assert torch.equal(*ends)


def test_norms_that_overflow_single_precision_are_exact() -> None:
    assert global_norm([torch.full((4,), 1e30)]) == pytest.approx(2e30)


def test_a_norm_beyond_the_range_of_floats_is_finite_as_its_entries_are() -> None:
    gradient = [torch.full((4,), 1.7e308, dtype=torch.float64)]
    assert math.isfinite(global_norm(gradient))
    clip_by_global_norm(gradient, 1.0)
    assert norm(gradient) == pytest.approx(1.0, rel=1.0)


def test_a_gradient_of_half_precision_is_clipped_to_the_radius() -> None:
    gradient = [torch.full((400,), 1000.0, dtype=torch.float16)]
    clip_by_global_norm(gradient, 1.0)
    assert norm(gradient) == pytest.approx(1.0, rel=1e-3)


def test_a_gradient_of_nothing_is_left_alone() -> None:
    assert clip_by_global_norm([None, None], 1.0) == [None, None]


@pytest.mark.parametrize("dispatch", ["finisher", "uniform"])
def test_the_virtual_iterate_stays_within_eta_c_times_concurrency(dispatch: Literal["finisher", "uniform"]) -> None:
    """virtual - x_k is the sum of what has been dispatched and not yet applied: C clipped gradients, whatever delays.

    Gradients are a function of the job, so that the virtual iterate can apply them when they are dispatched.
    """
    n, lr, clip, number = 6, 0.5, 0.75, 300

    def gradient(job: Job) -> list[Tensor]:
        generator = torch.Generator().manual_seed(job.worker + n * job.number)
        return [10.0 * torch.randn(20, generator=generator, dtype=torch.float64)]

    method = ClippedASGD(clip, dispatch)
    cluster = SimulatedCluster(RandomTimes(n, "pareto", shape=1.5), seed=1)
    out = _jobs_out(method, cluster, number)
    x = torch.zeros(20, dtype=torch.float64)
    largest = 0.0
    for step in simulate(method, cluster, [x], torch.optim.SGD([x], lr=lr), gradient, max_steps=number):
        virtual = x - sum(lr * clip_by_global_norm(gradient(job), clip)[0] for job in out[step.index])
        largest = max(largest, float((virtual - x).norm()))
        assert len(out[step.index]) == n
    assert largest <= lr * clip * n
    assert largest > lr * clip  # the bound is about more than one gradient


def _jobs_out(method: ClippedASGD, cluster: SimulatedCluster, number: int) -> list[list[Job]]:
    """The jobs that are out at x_{k+1}, for each step k, by watching a cluster."""
    out: set[Job] = set()

    class Watched(SimulatedCluster):
        def dispatch(self, worker: int, version: int) -> Job:
            job = super().dispatch(worker, version)
            out.add(job)
            return job

    history: list[list[Job]] = []
    schedule = method.steps(Watched(cluster.times, seed=cluster.seed))
    for k in range(number + 1):
        step: Step = next(schedule)
        if k:
            history.append(sorted(out))  # what was out while the server waited for this step
        out.difference_update(step.jobs)
    return history


def test_the_method_says_that_it_clips() -> None:
    assert ClippedASGD(clip=2.0).clip == 2.0
    assert not ClippedASGD.supports_sparse
    assert ASGD().clip is None
