from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def _alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder of its own, and no sign of W&B left behind."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WANDB_MODE", "offline")  # WandbLogger(offline=True) sets it for the rest of the process


def pytest_configure(config: pytest.Config) -> None:
    for message in (".*deprecated.*", ".*`max_epochs=-1`.*", ".*does not have many workers.*", ".*LeafSpec.*"):
        config.addinivalue_line("filterwarnings", f"ignore:{message}")
