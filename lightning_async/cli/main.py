"""Entry point of the `lightning-async` command."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib.metadata import version

from lightning_async.cli.nearest import nearest

COMMANDS = ("fit", "validate", "test", "compare")

OVERVIEW = """\
usage: lightning-async {fit,validate,test,compare} ...

Train any LightningModule asynchronously on a simulated heterogeneous cluster.

  fit        train a model: --config configs/recipes/<recipe>.yaml --config configs/methods/<method>.yaml
  validate   evaluate a model on the validation data
  test       evaluate a model on the test data
  compare    run several methods on one recipe and measure the logical time to a target

`lightning-async COMMAND --help` lists what a command takes."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs `lightning-async fit | validate | test | compare`.

    Args:
        arguments: The command line after the program's name; `sys.argv` by default.

    Returns:
        The exit status.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    if not words or words[0] in ("-h", "--help"):
        print(OVERVIEW)
        return 0
    if words[0] == "--version":
        print(f"lightning-async {version('lightning_async')}")
        return 0
    if not words[0].startswith("-") and words[0] not in COMMANDS:
        print(f"lightning-async: there is no command {words[0]!r}; {nearest(words[0], COMMANDS)}", file=sys.stderr)
        return 2
    # As with `python -m`: classes in the folder that the command is given in can be named in a configuration.
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    if words[:1] == ["compare"]:
        from lightning_async.cli.compare.command import run_compare_command

        return run_compare_command(words[1:])

    from lightning_async.cli.training import run_training_command

    run_training_command(words)
    return 0


if __name__ == "__main__":
    sys.exit(main())
