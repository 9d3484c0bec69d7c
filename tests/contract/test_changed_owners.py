"""A partition by a function whose code has changed is noticed when a run is resumed."""

import warnings
from pathlib import Path

from contract_battery.classifier import Classifier
from contract_battery.images import loader
from contract_battery.running import quiet, uneven_cluster

from lightning_async import ParameterServerStrategy
from lightning_async.data import ByGroup
from lightning_async.methods import ASGD

_width = 1


def owner(sample) -> int:
    """Depends on what `repr` of the partition cannot show."""
    return int(10 * sample[0].sum()) // _width


def said(tmp_path: Path, until: int) -> list[str]:
    strategy = ParameterServerStrategy(ASGD(), uneven_cluster(), partition=ByGroup(by=owner), seed=0)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        path = tmp_path / "run.ckpt"
        trainer = quiet(strategy=strategy, max_steps=until)
        trainer.fit(Classifier(), loader(), ckpt_path=path if path.exists() else None)
    trainer.save_checkpoint(path)
    return [str(warning.message) for warning in caught if "not those of the checkpoint" in str(warning.message)]


def test_other_owners_are_named(tmp_path: Path, monkeypatch) -> None:
    assert said(tmp_path, until=3) == said(tmp_path, until=6) == []
    monkeypatch.setitem(globals(), "_width", 4)
    (message,) = said(tmp_path, until=9)
    assert "checksum_of_owners=" in message
