from collections.abc import Iterator
from pathlib import Path

import pytest
import torch


@pytest.fixture(autouse=True)
def _alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A folder of its own, one thread, and no sign of W&B left behind."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WANDB_MODE", "offline")  # WandbLogger(offline=True) sets it for the rest of the process
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def pytest_configure(config: pytest.Config) -> None:
    for message in (".*deprecated.*", ".*`max_epochs=-1`.*", ".*does not have many workers.*", ".*LeafSpec.*"):
        config.addinivalue_line("filterwarnings", f"ignore:{message}")
