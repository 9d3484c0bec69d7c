"""A replica method that somebody else has written: what it is given, and what is said if it breaks a promise."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from lightning_async import Link, SimulatedCluster, simulate
from lightning_async.methods import (
    LOSCAR,
    Corrected,
    DenseMethod,
    DiLoCo,
    LocalSGD,
    MergeRule,
    Mixing,
    ReplicaMethod,
)
from lightning_async.replica_loop import ReplicaSimulation
from lightning_async.simulation import FixedTimes
from lightning_async.strategies import LocalSGDStrategy

SHAPES = ((3,), (5,))  # with a gap between them
D = 8


class Half(ReplicaMethod):
    """Exchanges every other coordinate."""

    overlap = True

    def __init__(self, compute_window: float = 3.0) -> None:
        super().__init__(compute_window)
        self.rule: MergeRule = Corrected()

    def size(self, round: int, num_coordinates: int, seed: int) -> int:
        return -(-num_coordinates // 2)

    def indices(self, round: int, num_coordinates: int, seed: int) -> Any:
        return np.arange(0, num_coordinates, 2)


def cluster(latency: float = 2.0) -> SimulatedCluster:
    return SimulatedCluster(FixedTimes([1.0, 3.0]), Link(latency))


def run(
    method: ReplicaMethod, shapes: tuple[tuple[int, ...], ...] = SHAPES, latency: float = 2.0, **arguments: Any
) -> ReplicaSimulation:
    generator = torch.Generator().manual_seed(0)
    xs = [torch.randn(shape, generator=generator, **arguments) for shape in shapes]
    sgd = torch.optim.SGD(xs, lr=0.1)
    running = simulate(method, cluster(latency), xs, sgd, lambda job: [x * (1 + job.worker) for x in xs], max_steps=20)
    for _ in running:
        pass
    assert running.local.rounds > 1
    return running


def changed(**members: Any) -> ReplicaMethod:
    return type("Mine", (Half,), members)()


class TestOuter:
    """An outer optimizer sees every round once, and where its values are."""

    class Recording(Half):
        def begin(self, initial: Tensor) -> None:
            self.initial, self.then = initial, initial.clone()
            self.calls: list[tuple[Tensor, Tensor | None]] = []

        def outer(self, mean: Tensor, where: Tensor | None) -> Tensor:
            self.calls.append((mean.clone(), where))
            return mean

    @pytest.mark.parametrize("latency", [0.5, 2.0], ids=["merged as it is read", "after a snapshot"])
    def test_it_is_called_once_a_round_with_all_of_it(self, latency: float) -> None:
        method = run(self.Recording(), ((20_000,),), latency).local
        assert [len(mean) for mean, _ in method.method.calls] == [10_000] * method.rounds

    def test_positions_are_those_in_a_row_like_the_initial_one(self) -> None:
        method = run(self.Recording()).local.method
        generator = torch.Generator().manual_seed(0)
        flat = torch.cat([torch.randn(shape, generator=generator) for shape in SHAPES])
        assert torch.equal(method.initial[method.calls[0][1]], flat[::2])

    @pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
    def test_a_whole_row_is_like_the_initial_one(self, dtype: torch.dtype) -> None:
        class Dense(DenseMethod):
            begin, outer = self.Recording.begin, self.Recording.outer

            def __init__(self) -> None:
                super().__init__(3.0)
                self.rule = Mixing(0.0)

        method = run(Dense(), dtype=dtype).local.method
        mean, where = method.calls[0]
        assert where is None
        assert (mean.shape, mean.dtype) == (method.initial.shape, method.initial.dtype)

    def test_the_initial_row_stays_what_it_was(self) -> None:
        method = run(self.Recording()).local.method
        assert torch.equal(method.initial, method.then)

    def test_it_may_change_the_mean_in_place(self) -> None:
        def doubled(self: Half, mean: Tensor, where: Tensor | None) -> Tensor:
            return mean.mul_(2.0)

        def twice(self: Half, mean: Tensor, where: Tensor | None) -> Tensor:
            return mean * 2.0

        assert torch.equal(run(changed(outer=doubled)).replicas, run(changed(outer=twice)).replicas)

    @pytest.mark.parametrize("latency", [0.5, 2.0], ids=["merged as it is read", "after a snapshot"])
    def test_to_return_the_mean_is_to_have_no_outer_optimizer(self, latency: float) -> None:
        with_outer, without = (run(method, ((20_000,),), latency) for method in (self.Recording(), Half()))
        assert torch.equal(with_outer.replicas, without.replicas)

    @pytest.mark.parametrize(
        ("outer", "error", "match"),
        [
            (lambda self, mean, where: None, TypeError, r"Mine\.outer must return .*, got None; .* return mean"),
            (
                lambda self, mean, where: mean.mean(),
                ValueError,
                r"Mine\.outer .* of shape \(4,\) on cpu, got shape \(\)",
            ),
            (lambda self, mean, where: mean[1:], ValueError, r"got shape \(3,\)"),
            (lambda self, mean, where: mean.bfloat16(), TypeError, "in torch.float32 at least, got torch.bfloat16"),
            (lambda self, mean, where: mean.long(), TypeError, "in torch.float32 at least, got torch.int64"),
        ],
        ids=["nothing", "scalar", "short", "narrow", "integers"],
    )
    def test_what_it_must_not_return_is_refused(self, outer: Any, error: type[Exception], match: str) -> None:
        with pytest.raises(error, match=match):
            run(changed(outer=outer))

    def test_a_wider_dtype_is_taken(self) -> None:
        wider = changed(outer=lambda self, mean, where: mean.double())
        torch.testing.assert_close(run(wider).replicas, run(Half()).replicas)

    def test_methods_without_one_are_known(self) -> None:
        methods = [Half(), LocalSGD(1.0), LOSCAR(0.5, compute_window=1.0), DiLoCo(1.0), self.Recording()]
        assert [method.has_outer for method in methods] == [False, False, False, True, True]


class TestIndices:
    """Coordinates are ascending, each once, as many as said, and among those that there are."""

    @pytest.mark.parametrize(
        ("indices", "error", "match"),
        [
            ([0, 2, 3, 6], TypeError, "must return a one-dimensional numpy array of integers, or None .* got a list"),
            (torch.arange(4), TypeError, "got a Tensor"),
            (np.arange(4.0), TypeError, r"got an array of shape \(4,\) and dtype float64"),
            (np.arange(D) < 4, TypeError, "dtype bool: .*np.flatnonzero"),
            (np.arange(4)[None], TypeError, r"shape \(1, 4\)"),
            (np.array([6, 3, 2, 0]), ValueError, "ascending coordinates, each of them once: use np.unique"),
            (np.array([0, 2, 2, 3]), ValueError, "ascending coordinates, each of them once: use np.unique"),
            (np.array([-1, 2, 3, 4]), ValueError, "from 0 to 7, got -1 to 4"),
            (np.array([0, 2, 3, 8]), ValueError, "from 0 to 7, got 0 to 8"),
            (np.array([0, 2, 3]), ValueError, r"returned 3 coordinates, but Mine\.size says that there are 4"),
            (None, ValueError, r"returned 8 coordinates, but Mine\.size says that there are 4"),
        ],
    )
    def test_others_are_refused(self, indices: object, error: type[Exception], match: str) -> None:
        with pytest.raises(error, match=rf"Mine\.indices\(0, 8, 0\) .*{match}"):
            run(changed(indices=lambda self, round, num_coordinates, seed: indices))

    @pytest.mark.parametrize(
        "indices",
        [
            np.arange(0, D, 2, dtype=np.int32),
            np.arange(0, D, 2, dtype=np.uint64),
            np.arange(D)[::2],
            np.arange(0, D, 2)[::-1].copy()[::-1],
            np.frombuffer(np.arange(0, D, 2).tobytes(), dtype=np.int64),
        ],
        ids=["int32", "uint64", "strided", "backwards in memory", "read-only"],
    )
    @pytest.mark.filterwarnings("error")
    @pytest.mark.parametrize("shapes", [((D,),), SHAPES], ids=["one parameter", "two parameters"])
    def test_any_array_of_integers_will_do(self, indices: np.ndarray, shapes: tuple[tuple[int, ...], ...]) -> None:
        method = changed(indices=lambda self, round, num_coordinates, seed: indices)
        assert torch.equal(run(method, shapes).replicas, run(Half(), shapes).replicas)

    @pytest.mark.parametrize(
        ("size", "error"), [(D / 2, TypeError), (None, TypeError), (-1, ValueError), (D + 1, ValueError)]
    )
    def test_a_size_that_cannot_be_is_refused_before_the_first_step(self, size: Any, error: type[Exception]) -> None:
        x = torch.ones(D)
        method = changed(size=lambda self, round, num_coordinates, seed: size)
        with pytest.raises(error, match=rf"Mine\.size\(0, 8, 0\) must return .* from 0 to 8, got {size}"):
            simulate(method, cluster(), [x], torch.optim.SGD([x], lr=0.1), lambda job: [x])

    def test_a_subclass_of_loscar_with_its_own_is_checked(self) -> None:
        class Mine(LOSCAR):
            def indices(self, round: int, num_coordinates: int, seed: int) -> np.ndarray:
                return np.arange(num_coordinates)[::-1].copy()

        with pytest.raises(ValueError, match="ascending"):
            run(Mine(1.0, compute_window=3.0))

    def test_nothing_to_exchange_is_no_round_with_a_merge(self) -> None:
        method = changed(
            size=lambda *_: 0, indices=lambda *_: pytest.fail("asked"), outer=lambda *_: pytest.fail("asked")
        )
        assert not torch.equal(*run(method).replicas)


class NoRule(Half):
    def __init__(self) -> None:
        ReplicaMethod.__init__(self, 3.0)


class RuleOfAnotherKind(Half):
    def __init__(self) -> None:
        super().__init__()
        self.rule = 0.5  # type: ignore[assignment]


class NoWindow(Half):
    def __init__(self) -> None:
        self.rule = Corrected()


class Forgetful(Half):
    def __init__(self, window: float = 3.0) -> None:
        super().__init__(window)


INCOMPLETE = {
    NoRule: r"NoRule has no rule to merge replicas, got rule=None: set self\.rule in NoRule\.__init__",
    RuleOfAnotherKind: r"got rule=0\.5",
    NoWindow: r"NoWindow has no compute_window: call super\(\).__init__\(compute_window\)",
    Forgetful: r"Forgetful .* there is none for window: set self\.window",
}
BEGINNINGS: dict[str, Callable[[ReplicaMethod], object]] = {
    "simulate": lambda method: simulate(
        method, cluster(), [x := torch.ones(3)], torch.optim.SGD([x], lr=0.1), lambda job: [x]
    ),
    "strategy": lambda method: LocalSGDStrategy(method, cluster()),
    "schedule": lambda method: method.steps(cluster()),
}


@pytest.mark.parametrize("begin", BEGINNINGS)
@pytest.mark.parametrize("kind", INCOMPLETE, ids=lambda kind: kind.__name__)
def test_a_method_that_is_not_complete_is_refused_where_it_is_given(kind: type[ReplicaMethod], begin: str) -> None:
    with pytest.raises(TypeError, match=INCOMPLETE[kind]):
        BEGINNINGS[begin](kind())


def test_a_method_that_keeps_the_size_of_the_model_to_itself_is_refused() -> None:
    with pytest.raises(RuntimeError, match=re.escape("end Mine.bind with super().bind(")):
        run(changed(bind=lambda self, num_coordinates, bytes_per_coordinate: None))


def test_a_function_will_do_as_a_rule() -> None:
    def overwrite(rows: Tensor, where: Tensor | None, mean: Tensor, y: Tensor, scratch: Tensor) -> None:
        rows[:, where] = mean

    mine, given = Half(), Half()
    mine.rule, given.rule = overwrite, Mixing(0.0)  # type: ignore[assignment]
    assert torch.equal(run(mine).replicas, run(given).replicas)


class Momentum(Half):
    def begin(self, initial: Tensor) -> None:
        self.momentum = torch.zeros_like(initial)


class SavedMomentum(Momentum):
    def state_dict(self) -> dict[str, Any]:
        return {"momentum": self.momentum}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.momentum.copy_(state["momentum"])


def test_a_state_that_no_checkpoint_would_hold_is_refused_by_a_strategy() -> None:
    with pytest.raises(TypeError, match=r"define Momentum\.state_dict.*and Momentum\.load_state_dict"):
        LocalSGDStrategy(Momentum(), cluster())
    LocalSGDStrategy(SavedMomentum(), cluster())
