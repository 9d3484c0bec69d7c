"""What a comparison has left in its folder."""

import csv
import json
from pathlib import Path
from typing import Any


def results(folder: Path) -> dict[str, dict[str, Any]]:
    """Everything a run measured; wall time is not a measurement of the method."""
    read = {path.parent.name: json.loads(path.read_text()) for path in folder.glob("runs/*/result.json")}
    for content in read.values():
        del content["wall_seconds"]
    return read


def rows(folder: Path) -> list[dict[str, str]]:
    with (folder / "results.csv").open() as file:
        return list(csv.DictReader(file))
