"""The same seed gives the same events in another process."""

import json
import os
import subprocess
import sys
from pathlib import Path

from contract_battery.trace import traces

SCRIPT = "import json; from contract_battery.trace import traces; print(json.dumps(traces()))"


def in_another_process(hash_seed: int) -> dict[str, str]:
    folders = [str(Path(__file__).parent), str(Path(__file__).parents[2])]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(folders),
        "PYTHONHASHSEED": str(hash_seed),
        "OMP_NUM_THREADS": "1",
    }
    done = subprocess.run([sys.executable, "-c", SCRIPT], env=environment, capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def test_events_losses_and_parameters_are_identical() -> None:
    here, there = traces(), in_another_process(hash_seed=1)
    assert here.keys() == there.keys()
    assert [name for name in here if here[name] != there[name]] == []
