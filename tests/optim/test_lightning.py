"""The optimizers inside Lightning: configuration, schedulers, checkpoints, precision."""

from pathlib import Path

import pytest
import torch
from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.callbacks import ModelCheckpoint
from lightning.pytorch.cli import LightningCLI, LRSchedulerCallable, OptimizerCallable
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from lightning_async.optim import LMO, Muon


class Regression(LightningModule):
    def __init__(
        self,
        optimizer: OptimizerCallable = torch.optim.Adam,
        scheduler: LRSchedulerCallable | None = None,
    ) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 1))
        self.optimizer, self.scheduler = optimizer, scheduler

    def training_step(self, batch: tuple[Tensor, Tensor], batch_idx: int) -> Tensor:
        x, y = batch
        return (self.net(x).squeeze(1) - y).square().mean()

    def train_dataloader(self) -> DataLoader:
        generator = torch.Generator().manual_seed(1)
        x = torch.randn(64, 6, generator=generator)
        return DataLoader(TensorDataset(x, x.sum(1)), batch_size=8)

    def configure_optimizers(self):
        optimizer = self.optimizer(self)
        if self.scheduler is None:
            return optimizer
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": self.scheduler(optimizer), "interval": "step"}}


class Plain(Regression):
    def __init__(self) -> None:
        super().__init__()

    configure_optimizers = LightningModule.configure_optimizers


def _trainer(max_steps: int, **options) -> Trainer:
    return Trainer(
        max_steps=max_steps,
        max_epochs=-1,
        accelerator="cpu",
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        **{"enable_checkpointing": False, **options},
    )


def _cli(module: type[LightningModule], *arguments: str) -> LightningCLI:
    quiet = ["--trainer.logger=false", "--trainer.enable_progress_bar=false", "--trainer.enable_checkpointing=false"]
    return LightningCLI(
        module,
        args=[*arguments, "--trainer.max_steps=3", "--trainer.accelerator=cpu", *quiet],
        run=False,
        save_config_callback=None,
        trainer_defaults={"enable_model_summary": False},
    )


def test_muon_is_configured_by_class_path_and_given_the_module():
    cli = _cli(
        Regression,
        "--model.optimizer=lightning_async.optim.Muon",
        "--model.optimizer.lr=0.1",
        "--model.optimizer.momentum=0.9",
        '--model.optimizer.norms={"head": "euclidean"}',
        '--model.optimizer.overrides={"net.2.weight": "sign"}',
        '--model.optimizer.lr_scale={"head": 0.5}',
        "--model.optimizer.ns_dtype=float32",
        "--model.scheduler=torch.optim.lr_scheduler.StepLR",
        "--model.scheduler.step_size=2",
    )
    cli.trainer.fit(cli.model)
    (optimizer,) = cli.trainer.optimizers
    assert isinstance(optimizer, Muon)
    found = {(g["role"], g["norm"]): (g["lr"], g["momentum"], g["ns_dtype"]) for g in optimizer.param_groups}
    assert found == {
        ("hidden", "spectral"): pytest.approx((0.01, 0.9, "float32")),
        ("hidden", "sign"): pytest.approx((0.01, 0.9, "float32")),
        ("head", "euclidean"): pytest.approx((0.005, 0.9, "float32")),
        ("vector", "bias_rms"): pytest.approx((0.01, 0.9, "float32")),
    }


def test_a_wrong_value_is_refused_when_the_configuration_is_read(capsys):
    with pytest.raises(SystemExit):
        _cli(Regression, "--model.optimizer=lightning_async.optim.Muon", "--model.optimizer.coefficients=cubic")
    assert "cubic" in capsys.readouterr().err


def test_lmo_is_the_optimizer_argument_of_the_command_line():
    cli = _cli(Plain, "--optimizer=lightning_async.optim.LMO", "--optimizer.norm=sign", "--optimizer.lr=0.3")
    cli.trainer.fit(cli.model)
    (optimizer,) = cli.trainer.optimizers
    assert isinstance(optimizer, LMO)
    assert [(g["norm"], g["lr"]) for g in optimizer.param_groups] == [("sign", 0.3)]


@pytest.mark.parametrize("precision", ["32-true", "bf16-true", "bf16-mixed"])
def test_training_reduces_the_loss_in_every_precision(precision):
    torch.manual_seed(0)
    model = Regression(optimizer=lambda module: Muon(module, lr=0.05, lr_scale={"head": 5.0}))
    x, y = model.train_dataloader().dataset.tensors
    before = (model.net(x).squeeze(1) - y).square().mean().item()
    _trainer(60, precision=precision).fit(model)
    dtype = next(model.parameters()).dtype
    assert dtype == (torch.bfloat16 if precision == "bf16-true" else torch.float32)
    after = (model.net(x.to(dtype)).squeeze(1).float() - y).square().mean().item()
    assert after < 0.1 * before


@pytest.mark.parametrize("precision", ["32-true", "bf16-true"])
def test_a_checkpointed_run_resumes_bit_for_bit(tmp_path: Path, precision):
    def module() -> Regression:
        torch.manual_seed(0)
        return Regression(
            optimizer=lambda module: Muon(module, lr=0.05),
            scheduler=lambda optimizer: torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.1, total_steps=20),
        )

    whole = module()
    saver = ModelCheckpoint(tmp_path, every_n_train_steps=8, save_top_k=-1, filename="{step}")
    _trainer(12, precision=precision, enable_checkpointing=True, callbacks=[saver]).fit(whole)
    resumed = module()
    _trainer(12, precision=precision).fit(resumed, ckpt_path=tmp_path / "step=8.ckpt", weights_only=True)
    for p, q in zip(whole.parameters(), resumed.parameters(), strict=True):
        assert torch.equal(p, q)
