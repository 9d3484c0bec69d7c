import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # `contract_battery`: importable in loading and spawned processes too


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
