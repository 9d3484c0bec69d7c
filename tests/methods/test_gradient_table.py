"""What methods with a table keep of gradients: how much, whose, and that nobody else changes it."""

from __future__ import annotations

import copy
import math

import pytest
import torch
from torch import Tensor

from lightning_async import SimulatedCluster, simulate
from lightning_async.methods import IASGD, Gradient, MaleniaSGD, Method, MinibatchSGD, RingleaderASGD
from lightning_async.methods.gradient_table import GradientTable
from lightning_async.methods.server import ParameterServer
from lightning_async.simulation import FixedTimes, Job, TwoSpeedTimes

N = 4
TIMES = [1.0, 1.5, 2.3, 4.0]
NAN = float("nan")


def make(method: Method, on_nonfinite: str = "discard") -> ParameterServer:
    return ParameterServer(method, SimulatedCluster(FixedTimes(TIMES)), [torch.zeros(1)], on_nonfinite=on_nonfinite)


def make_step(server: ParameterServer, value) -> float | None:
    """One step with `value(job)` as the gradient of a job; its direction."""
    direction = server.direction(lambda job, position: [torch.tensor([float(value(job))])])
    server.before_update()
    server.after_update()
    return None if direction is None else direction[0].item()


def tensors(state: object) -> list[Tensor]:
    """The tensors in a state."""
    if isinstance(state, (dict, list, tuple)):
        return [found for value in (state.values() if isinstance(state, dict) else state) for found in tensors(value)]
    return [state] if isinstance(state, Tensor) else []


@pytest.mark.parametrize(
    ("method", "most"), [(RingleaderASGD(), 16 + 2), (IASGD(), 16 + 1), (MaleniaSGD(), 0)], ids=repr
)
def test_no_more_gradients_are_kept_than_the_docstring_says(method: Method, most: int) -> None:
    server = ParameterServer(method, SimulatedCluster(TwoSpeedTimes(16, 7.0)), [torch.zeros(1)])
    kept = []
    for _ in range(100):
        make_step(server, lambda job: job.worker)
        kept.append(len(tensors(method.state_dict())))
    assert max(kept) <= most
    assert most == 0 or max(kept) >= 16


@pytest.mark.parametrize("method", [RingleaderASGD(), IASGD()], ids=repr)
def test_who_changes_a_direction_in_place_does_not_change_the_table(method: Method) -> None:
    """As clipping by the Trainer does, or a loss scale."""

    def directions(spoil: bool) -> list[float]:
        server, history = make(method), []
        for _ in range(40):
            (direction,) = server.direction(lambda job, position: [torch.tensor([math.cos(3 * job.number)])])
            history.append(direction.item())
            if spoil:
                direction.fill_(99.0)
            server.before_update()
            server.after_update()
        return history

    assert directions(spoil=True) == directions(spoil=False)


@pytest.mark.parametrize("method", [RingleaderASGD(), IASGD(), MaleniaSGD()], ids=repr)
def test_a_gradient_function_may_give_the_same_memory_again(method: Method) -> None:
    def final(reuse: bool) -> Tensor:
        x, memory = torch.tensor([1.0, 2.0]), torch.empty(2)

        def gradient(job: Job) -> list[Tensor]:
            memory.copy_(x.sin() + job.worker)
            return [memory if reuse else memory.clone()]

        sgd = torch.optim.SGD([x], lr=0.1)
        for _ in simulate(method, SimulatedCluster(FixedTimes(TIMES)), [x], sgd, gradient, max_steps=50):
            pass
        return x

    assert torch.equal(final(reuse=True), final(reuse=False))


@pytest.mark.parametrize("method", [RingleaderASGD(), IASGD()], ids=repr)
def test_a_new_run_begins_with_an_empty_table(method: Method) -> None:
    runs = []
    for _ in range(2):
        server = make(method)
        runs.append([make_step(server, lambda job: job.number + job.worker) for _ in range(7)])
    assert runs[0] == runs[1]


@pytest.mark.parametrize("method", [RingleaderASGD(), IASGD()], ids=repr)
def test_a_state_that_was_loaded_is_not_changed_by_going_on(method: Method) -> None:
    server = make(method)
    for _ in range(5):
        make_step(server, lambda job: job.number)
    state = server.state_dict()
    kept = copy.deepcopy(state)
    resumed = make(type(method)())
    resumed.load_state_dict(state)
    for _ in range(12):
        make_step(resumed, lambda job: 7.0)
    assert str(state) == str(kept)


def exact(method: Method, value, steps: int) -> list[float]:
    """The directions from the definition: means of all that a worker has in its table, over workers with something.

    Ringleader's table is that of its round, IASGD's the last gradient, Malenia's that of the step.
    """
    expected: list[float | None] = []
    table: dict[int, dict[int, list[float]]] = {}  # round -> worker -> gradients
    for step, _ in zip(method.steps(SimulatedCluster(FixedTimes(TIMES))), range(steps), strict=False):
        ringleader = isinstance(method, RingleaderASGD)
        now = step.index // N if ringleader else 0
        if isinstance(method, MaleniaSGD):
            table = {}
        finite = [job for job in step.jobs if math.isfinite(value(job))]
        for job in finite:
            mine = table.setdefault(math.ceil(job.version / N) if ringleader else 0, {})
            mine[job.worker] = [] if isinstance(method, IASGD) else mine.get(job.worker, [])
            mine[job.worker].append(value(job))
        means = [sum(values) / len(values) for values in table.get(now, {}).values()]
        expected.append(sum(means) / len(means) if finite and means else None)
    return expected


@pytest.mark.parametrize("bad", ["none", "some", "a worker", "the first round"])
@pytest.mark.parametrize("method", [RingleaderASGD(), IASGD(), MaleniaSGD(), MaleniaSGD(target=9)], ids=repr)
def test_gradients_that_are_not_finite_are_left_out_of_their_worker_and_silent_workers_out_of_the_mean(
    method: Method, bad: str
) -> None:
    def value(job: Job) -> float:
        spoiled = {
            "none": False,
            "some": (job.worker + job.number) % 3 == 0,
            "a worker": job.worker == 3,
            "the first round": job.version <= N,
        }[bad]
        return NAN if spoiled else math.sin(5 * job.worker + job.number)

    server, steps = make(method), 60
    ours = [make_step(server, value) for _ in range(steps)]
    expected = exact(method, value, steps)
    assert [direction is None for direction in ours] == [direction is None for direction in expected]
    made = [(one, other) for one, other in zip(ours, expected, strict=True) if one is not None]
    assert len(made) > 10
    assert [one for one, _ in made] == pytest.approx([other for _, other in made], abs=1e-5)


@pytest.mark.parametrize("method", [RingleaderASGD(), IASGD(), MaleniaSGD()], ids=repr)
def test_a_parameter_that_took_no_part_counts_as_zero_and_one_that_never_did_has_no_direction(method: Method) -> None:
    parameters = [torch.zeros(1), torch.zeros(1), torch.zeros(1)]
    server = ParameterServer(method, SimulatedCluster(FixedTimes(TIMES)), parameters)

    def compute(job: Job, position: int) -> Gradient:
        return [torch.ones(1), torch.ones(1) if job.worker == 1 else None, None]

    for _ in range(20):
        first, second, third = server.direction(compute)
        assert (first.item(), second.item(), third) == (pytest.approx(1.0), pytest.approx(0.25), None)
        server.before_update()
        server.after_update()


def test_malenia_with_one_gradient_of_everybody_is_minibatch_sgd() -> None:
    equal = SimulatedCluster(FixedTimes([2.0] * N))

    def run(method: Method) -> tuple[list[float], Tensor]:
        x = torch.tensor([1.0, 2.0], dtype=torch.float64)
        sgd = torch.optim.SGD([x], lr=0.1)
        return [step.time for step in simulate(method, equal, [x], sgd, lambda job: [x.cos() + job.worker], 20)], x

    (ours, x), (theirs, y) = run(MaleniaSGD()), run(MinibatchSGD())
    assert ours == theirs
    torch.testing.assert_close(x, y)


def test_the_mean_of_a_table_is_over_workers_and_not_over_gradients() -> None:
    table = GradientTable()
    table.add(0, [torch.tensor([6.0])], count=3)
    table.add(1, [torch.tensor([10.0])])
    assert table.mean()[0].item() == 6.0
    table.replace(0, [torch.tensor([0.0])])
    assert table.mean()[0].item() == 5.0
    table.remove(0)
    assert (len(table), 0 in table, table.mean()[0].item()) == (1, False, 10.0)


@pytest.mark.parametrize("method", [RingleaderASGD(), IASGD()], ids=repr)
def test_a_table_that_was_read_to_the_cpu_goes_to_the_device_of_the_parameters(method: Method) -> None:
    server = make(method)
    for _ in range(5):
        make_step(server, lambda job: job.number)
    elsewhere = [torch.zeros(1, device="meta")]
    resumed = ParameterServer(type(method)(), SimulatedCluster(FixedTimes(TIMES)), elsewhere)
    resumed.load_state_dict(server.state_dict())
    kept = tensors(resumed.method.state_dict())
    assert {tensor.device.type for tensor in kept} == {"meta"}
    assert len(kept) == len(tensors(method.state_dict())) > 0
