"""The replica method in the README does what is said of it."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from lightning.pytorch import LightningModule, Trainer
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from lightning_async import Link, LocalSGDStrategy, SimulatedCluster, simulate
from lightning_async.methods import ReplicaMethod
from lightning_async.simulation import FixedTimes, UniformTimes

README = Path(__file__).parent.parent / "README.md"


@pytest.fixture
def outer_adam() -> Callable[..., ReplicaMethod]:
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(), flags=re.DOTALL)
    (example,) = [block for block in blocks if "class OuterAdam" in block]
    space: dict[str, Callable[..., ReplicaMethod]] = {}
    exec(example, space)
    return space["OuterAdam"]


def test_it_is_adam_on_the_movement_of_the_mean(outer_adam: Callable[..., ReplicaMethod]) -> None:
    xs = [torch.linspace(-1.0, 1.0, size, dtype=torch.float64) for size in (3, 5)]
    outer = torch.cat(xs)
    running = simulate(
        outer_adam(compute_window=3.0, outer_lr=0.1),
        SimulatedCluster(UniformTimes(2)),
        xs,
        torch.optim.SGD(xs, lr=0.1),
        lambda job: [x + job.worker for x in xs],
        max_steps=4 * 2 * 3,
    )
    for _ in running:
        pass
    adam = torch.optim.Adam([outer], lr=0.1)
    for _ in range(4):
        replicas = outer.expand(2, -1).clone()
        for _ in range(3):
            replicas -= 0.1 * (replicas + torch.tensor([[0.0], [1.0]], dtype=torch.float64))
        outer.grad = outer - replicas.mean(0)
        adam.step()
    torch.testing.assert_close(running.replicas, outer.expand(2, -1), rtol=0, atol=1e-13)


class Linear(LightningModule):
    def __init__(self) -> None:
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(0)
            self.network = nn.Linear(7, 3)

    def training_step(self, batch: list[Tensor], batch_idx: int) -> Tensor:
        return nn.functional.cross_entropy(self.network(batch[0]), batch[1])

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.1)


def test_it_is_resumed_bit_for_bit(outer_adam: Callable[..., ReplicaMethod], tmp_path: Path) -> None:
    generator = torch.Generator().manual_seed(0)
    data = TensorDataset(torch.randn(60, 7, generator=generator), torch.arange(60) % 3)

    def trained(steps: int, checkpoint: Path | None = None) -> Trainer:
        cluster = SimulatedCluster(FixedTimes([1.0, 3.0]), Link(latency=2.0))
        trainer = Trainer(
            strategy=LocalSGDStrategy(outer_adam(compute_window=3.0), cluster),
            max_steps=steps,
            max_epochs=-1,
            accelerator="cpu",
            logger=False,
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
        )
        trainer.fit(Linear(), DataLoader(data, batch_size=5), ckpt_path=checkpoint)
        return trainer

    trained(10).save_checkpoint(tmp_path / "10.ckpt")
    resumed = trained(20, tmp_path / "10.ckpt").strategy
    whole = trained(20).strategy
    assert isinstance(resumed, LocalSGDStrategy)
    assert isinstance(whole, LocalSGDStrategy)
    assert torch.equal(resumed.replicas, whole.replicas)
