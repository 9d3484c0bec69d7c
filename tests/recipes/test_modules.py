import pytest
import torch
from lightning.pytorch import Trainer

from recipes.a9a import A9A, LogisticRegression
from recipes.fashion_cnn import FashionCNN, FashionMNIST7000, ResNet18, TwoLayerCNN
from recipes.shakespeare_lstm import CharacterLSTM, ShakespeareRoles

MODELS = [FashionCNN, TwoLayerCNN, ResNet18, CharacterLSTM, LogisticRegression]
TASKS = {
    "fashion_cnn": (FashionCNN, FashionMNIST7000),
    "shakespeare_lstm": (lambda lr: CharacterLSTM(hidden_size=8, lr=lr), lambda: ShakespeareRoles(20, 50_000)),
    "a9a": (LogisticRegression, A9A),
}


@pytest.mark.parametrize("model", MODELS)
def test_own_optimizer_is_plain_sgd_with_the_given_step_size(model):
    optimizer = model(lr=0.125).configure_optimizers()
    assert type(optimizer) is torch.optim.SGD
    group = optimizer.param_groups[0]
    assert (group["lr"], group["momentum"], group["weight_decay"]) == (0.125, 0, 0)


@pytest.fixture(params=TASKS)
def task(request):
    return TASKS[request.param]


def test_trains_with_a_plain_trainer_and_reloads_from_its_checkpoint(task, tmp_path):
    build, data = task
    model = build(lr=0.125)
    trainer = Trainer(
        accelerator="cpu",
        max_steps=3,
        max_epochs=-1,
        limit_val_batches=1,
        logger=False,
        default_root_dir=tmp_path,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(model, datamodule=data())
    trainer.save_checkpoint(tmp_path / "last.ckpt")
    restored = type(model).load_from_checkpoint(tmp_path / "last.ckpt")
    assert restored.lr == 0.125
    for name, tensor in model.state_dict().items():
        assert torch.equal(restored.state_dict()[name], tensor)
