"""Parameter-agnostic Ringmaster: its rules to the last bit, inside the plain loop and inside a Trainer."""

from fractions import Fraction
from itertools import islice
from math import isqrt

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from lightning.fabric.utilities.exceptions import MisconfigurationException
from lightning.pytorch import Callback, LightningModule, Trainer
from torch.utils.data import DataLoader, TensorDataset

from lightning_async import ParameterServerStrategy, SimulatedCluster, simulate
from lightning_async.methods import ParameterAgnosticRingmaster, RingmasterASGD
from lightning_async.optim import LMO, Muon
from lightning_async.simulation import FixedTimes, Job, SqrtTimes, Step

TIMES = (1.0, 1.5, 2.3, 4.0, 9.0)


def step(index: int) -> Step:
    return Step(index, 0.0, (Job(0, index, 0),))


@given(st.integers(0, 10**12), st.integers(0, 10**6))
def test_a_delay_is_used_iff_it_is_below_the_inverse_of_alpha(k: int, delay: int) -> None:
    used = delay < ParameterAgnosticRingmaster().threshold_at(k)
    assert used == (Fraction(delay) ** 2 < max(1, k))


@given(st.integers(0, 10**12))
def test_rounding_down_is_the_floor_of_the_root(k: int) -> None:
    assert ParameterAgnosticRingmaster(rounding="down").threshold_at(k) == max(1, isqrt(k))


@pytest.mark.parametrize("k", [0, 1, 2, 3, 10, 99, 12_345])
def test_momentum_and_step_follow_from_the_number_of_the_update(k: int) -> None:
    method = ParameterAgnosticRingmaster()
    assert method.momentum(step(k)) == (0.0 if k == 0 else 1.0 - k**-0.5)
    assert method.lr_multiplier(step(k)) == (k + 1) ** -0.75


def test_its_schedule_is_that_of_the_adaptive_threshold() -> None:
    cluster = SimulatedCluster(SqrtTimes(12))
    ours = list(islice(ParameterAgnosticRingmaster().steps(cluster), 300))
    assert ours == list(islice(RingmasterASGD("adaptive").steps(cluster), 300))
    assert max(step.delays[0] for step in ours) > 3


def test_the_first_update_forgets_what_the_momentum_was() -> None:
    x = torch.tensor([1.0, -2.0])
    optimizer = LMO([x], lr=0.5, momentum=0.9, norm="euclidean")
    optimizer.state[x]["momentum_buffer"] = torch.full((2,), 1e6)
    next(
        iter(simulate(ParameterAgnosticRingmaster(), SimulatedCluster(FixedTimes([1.0])), [x], optimizer, gradient(x)))
    )
    assert optimizer.state[x]["momentum_buffer"].tolist() == [2.0, -8.0]


def gradient(x: torch.Tensor):
    curvature = torch.tensor([2.0, 4.0])
    return lambda job: [curvature * x]


@pytest.mark.parametrize("stops", [True, False])
@pytest.mark.parametrize("norm", ["euclidean", "sign"])
def test_equals_a_loop_by_hand(norm: str, stops: bool) -> None:
    eta, steps = 0.7, 200
    x = torch.tensor([3.0, -1.0])
    optimizer = LMO([x], lr=eta, momentum=0.5, norm=norm)
    method, cluster = ParameterAgnosticRingmaster(stops=stops), SimulatedCluster(FixedTimes(list(TIMES)))
    ours = [x.clone() for _ in simulate(method, cluster, [x], optimizer, gradient(x), max_steps=steps)]

    y, m, k, theirs = torch.tensor([3.0, -1.0]), torch.zeros(2), 0, []
    out = [[due, worker, 0, y] for worker, due in enumerate(TIMES)]  # due, worker, version, iterate
    while k < steps:
        job = min(out, key=lambda job: (job[0], job[1]))
        now, _, version, at = job
        if (k - version) ** 2 < max(1, k):
            alpha = k**-0.5 if k else 1.0
            m = (1 - alpha) * m + alpha * torch.tensor([2.0, 4.0]) * at
            y = y - eta * (k + 1) ** -0.75 * (m / m.norm() if norm == "euclidean" else m.sign())
            k += 1
            theirs.append(y)
        for other in out:
            late = (k - other[2]) ** 2 >= max(1, k)
            if other is job or (stops and late):
                other[:] = [now + TIMES[other[1]], other[1], k, y]
    torch.testing.assert_close(torch.stack(ours), torch.stack(theirs), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_simulate_refuses_a_momentum_that_is_no_average(momentum: float) -> None:
    x = torch.ones(2)
    with pytest.raises(ValueError, match=r"average.*SGD.*lightning_async\.optim\.Muon"):
        simulate(
            ParameterAgnosticRingmaster(),
            SimulatedCluster(FixedTimes([1.0])),
            [x],
            torch.optim.SGD([x], lr=0.1, momentum=momentum),
            gradient(x),
        )


def test_an_unknown_rounding_is_refused() -> None:
    with pytest.raises(ValueError, match=r"rounding.*nearest"):
        ParameterAgnosticRingmaster(rounding="nearest")  # type: ignore[arg-type]


class Regression(LightningModule):
    def __init__(self, make_optimizer) -> None:
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(0)
            self.network = torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.Tanh(), torch.nn.Linear(6, 2))
        self.make_optimizer = make_optimizer

    def training_step(self, batch, batch_idx):
        x, y = batch
        return torch.nn.functional.mse_loss(self.network(x), y)

    def configure_optimizers(self):
        optimizer = self.make_optimizer(self)
        scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.5)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": scheduler, "interval": "step"}}


def fit(make_optimizer, steps: int = 6, **arguments):
    generator = torch.Generator().manual_seed(0)
    data = TensorDataset(torch.randn(40, 4, generator=generator), torch.randn(40, 2, generator=generator))
    strategy = ParameterServerStrategy(ParameterAgnosticRingmaster(), SimulatedCluster(FixedTimes(list(TIMES))))
    trainer = Trainer(
        strategy=strategy,
        max_steps=steps,
        max_epochs=-1,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        **arguments,
    )
    trainer.fit(Regression(make_optimizer), DataLoader(data, batch_size=5))
    return trainer


class Groups(Callback):
    """What is in the optimizer's groups between two steps, and the momentum with which a step was made."""

    def __init__(self) -> None:
        self.between: list[tuple[float, float]] = []

    def on_train_batch_end(self, trainer, *args) -> None:
        (group,) = {(group["lr"], group["momentum"]) for group in trainer.optimizers[0].param_groups}
        self.between.append(group)


def test_schedulers_see_nothing_of_it() -> None:
    groups = Groups()
    fit(lambda module: Muon(module, lr=0.25, momentum=0.95, nesterov=False), callbacks=[groups])
    assert groups.between == [(0.25 * 0.5**k, 0.95) for k in range(1, 7)]


def test_a_step_is_made_with_the_scheduled_rate_times_the_decay() -> None:
    made = []

    class Recording(Muon):
        def step(self, closure=None):
            made.append({(group["lr"], group["momentum"]) for group in self.param_groups})
            return super().step(closure)

    fit(lambda module: Recording(module, lr=0.25, nesterov=False))
    assert made == [{(0.25 * 0.5**k * (k + 1) ** -0.75, 0.0 if k == 0 else 1.0 - k**-0.5)} for k in range(len(made))]
    assert len(made) == 6


@pytest.mark.parametrize("optimizer", [torch.optim.SGD, torch.optim.AdamW])
def test_a_trainer_refuses_a_momentum_that_is_no_average(optimizer) -> None:
    with pytest.raises(MisconfigurationException, match=r"average.*lightning_async\.optim\.Muon"):
        fit(lambda module: optimizer(module.parameters(), lr=0.1))
