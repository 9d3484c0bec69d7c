"""fp16 with a gradient scaler, where every step has one gradient."""

import pytest
import torch
from contract_battery.classifier import Classifier
from contract_battery.images import loader
from contract_battery.running import MemoryLogger, differences, outcome, quiet, uneven_cluster
from lightning.pytorch.plugins import MixedPrecision

from lightning_async import ParameterServerStrategy, SimulatedCluster
from lightning_async.methods import ASGD, ClippedASGD
from lightning_async.simulation import FixedTimes


def fp16(name_or_none, module, **arguments):
    plugin = MixedPrecision(
        "16-mixed", "cpu", scaler=torch.amp.GradScaler("cpu", init_scale=2.0**20, growth_interval=3)
    )
    strategy = {} if name_or_none is None else {"strategy": name_or_none}
    logger = MemoryLogger()
    trainer = quiet(max_steps=14, plugins=[plugin], logger=logger, **strategy, **arguments)
    trainer.fit(module, loader())
    return trainer, plugin.scaler, logger


@pytest.mark.parametrize("method", [ASGD, lambda: ClippedASGD(clip=1e6)], ids=["asgd", "clipped"])
@pytest.mark.parametrize("optimizer", ["momentum", "adamw"])
def test_one_worker_with_a_gradient_scaler_is_plain_training(method, optimizer: str) -> None:
    alone = ParameterServerStrategy(method(), SimulatedCluster(FixedTimes([1.0])))
    ours, scaler, logger = fp16(alone, Classifier(optimizer, schedule=True))
    plain, plain_scaler, plain_logger = fp16(None, Classifier(optimizer, schedule=True))
    server = ours.strategy.server
    results = [{key: value for key, value in outcome(t).items() if key != "progress"} for t in (plain, ours)]
    assert differences(*results) == []
    assert scaler.state_dict() == plain_scaler.state_dict()
    assert logger.rows == plain_logger.rows
    assert scaler.get_scale() < 2.0**20  # it has overflowed
    assert server.nonfinite > 0


def test_clipping_with_a_gradient_scaler_bounds_the_unscaled_gradient() -> None:
    module = Classifier()
    before = [p.detach().clone() for p in module.parameters()]
    strategy = ParameterServerStrategy(ClippedASGD(clip=1e-3), uneven_cluster())
    trainer, _, _ = fp16(strategy, module)
    used = 14 - strategy.server.nonfinite
    moved = torch.cat([(p - q).flatten() for p, q in zip(module.parameters(), before, strict=True)]).norm().item()
    assert 0 < moved <= 0.1 * 1e-3 * used * (1 + 1e-3)
    assert trainer.global_step == 14
