"""Time per gradient under a strategy, against a plain Trainer on the same module and data.

Clipping is work that a plain Trainer can do as well, so that `clipped_asgd` is also compared with
`Trainer(gradient_clip_val=...)`.
"""

from __future__ import annotations

from rich.table import Table

from benchmarks.turns import Competitor, in_turns, ratio
from lightning_async.strategies.registry import REGISTERED
from recipes.fashion_cnn import FashionCNN

ROUNDS = 60
PLAIN, PLAIN_CLIPPED = "plain", "plain, clipped"
NAMES = ["asgd", "delay_adaptive_asgd", "clipped_asgd", "ringmaster_asgd", "rennala_sgd", "minibatch_sgd", "loscar"]
ROWS = [*((name, PLAIN) for name in NAMES), ("clipped_asgd", PLAIN_CLIPPED)]


def run() -> Table:
    """Medians over the quiet rounds of the ratio within a round."""
    competitors = {PLAIN: Competitor(), PLAIN_CLIPPED: Competitor(clip=1.0)}
    competitors |= {name: Competitor(REGISTERED[name]) for name in NAMES}
    timed = in_turns(competitors, lambda: FashionCNN(lr=0.03), ROUNDS)
    table = Table(title="Time per gradient, over a plain Trainer (Fashion-MNIST CNN, batch 32, 16 workers)")
    for column in ("method", "ratio", "quartiles", "copies alive"):
        table.add_column(column, justify="left" if column == "method" else "right")
    for name, plain in ROWS:
        table.add_row(
            name if plain == PLAIN else f"{name}, both clip",
            *ratio(timed, name, plain),
            "one a worker" if name == "loscar" else str(competitors[name].copies),
        )
    return table


if __name__ == "__main__":
    from rich import print as show

    show(run())
