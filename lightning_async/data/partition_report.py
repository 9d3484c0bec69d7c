"""How heterogeneous a partition is: a table, skew measures, and a plot."""

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from os import PathLike, fspath
from pathlib import Path

import numpy as np
import numpy.typing as npt
from rich.box import SIMPLE
from rich.table import Table

from lightning_async.data.partition import IndexArray
from lightning_async.data.partition_labels import LabelArray, encode_labels

# Beyond this many labels a table of counts, or a legend, is no longer readable.
_MAX_COLUMNS = 12
_MAX_COLOURS = 20
_MAX_COLOURED = 18
_GREY = (0.75, 0.75, 0.75)


@dataclass(frozen=True, eq=False)
class PartitionReport:
    """Label counts of every worker, and what follows from them.

    Attributes:
        counts: shape (n, number of labels), samples of each label at each worker.
        labels: the value of every label, in the order of the columns.
    """

    counts: npt.NDArray[np.int64]
    labels: tuple[Hashable, ...]

    @property
    def sizes(self) -> npt.NDArray[np.int64]:
        """Samples per worker, shape (n,)."""
        return np.asarray(self.counts.sum(axis=1), dtype=np.int64)

    @property
    def size_imbalance(self) -> float:
        """Largest shard over smallest shard."""
        return float(self.sizes.max() / self.sizes.min())

    @property
    def labels_per_worker(self) -> npt.NDArray[np.int64]:
        """Number of different labels at each worker, shape (n,)."""
        return np.asarray(np.count_nonzero(self.counts, axis=1), dtype=np.int64)

    @property
    def total_variation(self) -> npt.NDArray[np.float64]:
        """Distance of each worker's label shares p_i to the global ones p, shape (n,), in [0, 1].

        Entry i is 1/2 sum_c |p_ic - p_c|.
        """
        own = self.counts / self.sizes[:, None]
        return np.asarray(0.5 * np.abs(own - self._global_shares).sum(axis=1), dtype=np.float64)

    @property
    def mean_total_variation(self) -> float:
        """Mean of ``total_variation``: 0 without label skew, 1 - 1/n for n equal shards without a common label."""
        return float(self.total_variation.mean())

    @property
    def mean_total_variation_iid(self) -> float:
        """What ``mean_total_variation`` is on average when shards of the same sizes are drawn at random.

        Small shards differ from the whole by chance alone; only what exceeds this is skew. Exact: the mean absolute
        deviation of the hypergeometric law (Ramasubban 1958) for each worker and label.
        """
        per_label, total = self.counts.sum(axis=0), int(self.counts.sum())
        distances = [
            0.5 * sum(_hypergeometric_deviation(total, int(marked), int(size)) for marked in per_label) / int(size)
            for size in self.sizes
        ]
        return float(np.mean(distances))

    @property
    def _global_shares(self) -> npt.NDArray[np.float64]:
        return np.asarray(self.counts.sum(axis=0) / self.counts.sum(), dtype=np.float64)

    def summary(self) -> str:
        """One line with the sizes and the skew measures."""
        sizes = self.sizes
        return (
            f"{sizes.sum()} samples, {len(self.labels)} labels, {len(sizes)} workers; "
            f"{sizes.min()} to {sizes.max()} samples per worker (ratio {self.size_imbalance:.2f}); "
            f"mean total variation (TV) to the global labels {self.mean_total_variation:.3f} "
            f"(i.i.d. shards: {self.mean_total_variation_iid:.3f})"
        )

    def to_markdown(self) -> str:
        """The table and the summary as Markdown."""
        header, rows = self._cells()
        lines = [header, ["---:"] * len(header), *rows]
        return "\n".join(["| " + " | ".join(line) + " |" for line in lines] + ["", self.summary()])

    def __rich__(self) -> Table:
        """The same for ``rich.print``."""
        header, rows = self._cells()
        table = Table(title="Partition", caption=self.summary(), box=SIMPLE, padding=(0, 1, 0, 0))
        for name in header:
            table.add_column(name, justify="right")
        for row in rows:
            table.add_row(*row)
        return table

    def plot(self, path: str | PathLike[str]) -> None:
        """Write a stacked bar per worker, one colour per label; the suffix (.png, .pdf, .svg) chooses the format.

        With more than 20 labels the 18 most frequent keep a colour and the rest is one grey bar.
        """
        # A Figure of its own, not pyplot: no window system and no global state in the middle of a training run.
        from matplotlib import color_sequences
        from matplotlib.figure import Figure
        from matplotlib.ticker import MaxNLocator

        counts, names, other = self._plotted()
        num_workers, num_bars = counts.shape
        colours = color_sequences["tab10" if num_bars <= 10 else "tab20"]
        if other:
            # Without its own two greys, which would read as the others.
            colours = [*colours[:14], *colours[16:], _GREY]
        figure = Figure(figsize=(min(4.0 + 0.3 * num_workers, 16.0), 4.2), layout="constrained")
        axes = figure.add_subplot()
        below = np.zeros(num_workers)
        for column, name, colour in zip(counts.T, names, colours[:num_bars], strict=True):
            axes.bar(np.arange(num_workers), column, bottom=below, color=colour, label=name, width=0.85)
            below += column
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        if num_workers <= 32:
            axes.set_xticks(np.arange(num_workers))
        axes.set_xlim(-0.6, num_workers - 0.4)
        axes.set_xlabel("worker")
        axes.set_ylabel("samples")
        axes.set_title(
            f"mean total variation {self.mean_total_variation:.3f} (i.i.d.: {self.mean_total_variation_iid:.3f})",
            fontsize="medium",
        )
        axes.spines[["top", "right"]].set_visible(False)
        handles, texts = axes.get_legend_handles_labels()
        # Reversed, so that the legend reads from top to bottom like the bars.
        figure.legend(
            handles[::-1], texts[::-1], title="label", loc="outside right upper", fontsize="small", frameon=False
        )
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(fspath(path), dpi=150)

    def _cells(self) -> tuple[list[str], list[list[str]]]:
        few = len(self.labels) <= _MAX_COLUMNS
        header = ["worker", "samples", "labels", "TV"]
        header += [str(label) for label in self.labels] if few else ["most frequent labels"]
        rows = []
        for worker, (row, size) in enumerate(zip(self.counts, self.sizes, strict=True)):
            cells = [str(worker), str(size), str(self.labels_per_worker[worker]), f"{self.total_variation[worker]:.3f}"]
            if few:
                cells += [str(count) for count in row]
            else:
                top = [index for index in np.argsort(-row, kind="stable")[:3] if row[index]]
                cells.append(", ".join(f"{self.labels[index]} ({row[index] / size:.0%})" for index in top))
            rows.append(cells)
        return header, rows

    def _plotted(self) -> tuple[npt.NDArray[np.int64], list[str], bool]:
        if len(self.labels) <= _MAX_COLOURS:
            return self.counts, [str(label) for label in self.labels], False
        frequent = np.sort(np.argsort(-self.counts.sum(axis=0), kind="stable")[:_MAX_COLOURED])
        kept = self.counts[:, frequent]
        rest = self.counts.sum(axis=1) - kept.sum(axis=1)
        names = [str(self.labels[index]) for index in frequent]
        return np.column_stack([kept, rest]), [*names, f"{len(self.labels) - len(frequent)} others"], True


def partition_report(shards: Sequence[IndexArray], labels: LabelArray) -> PartitionReport:
    """Count the labels of every shard.

    Args:
        shards: indices of every worker, as :meth:`Partition.assign` returns them.
        labels: one label per sample of the dataset, as :func:`read_labels` returns them.

    Raises:
        ValueError: if there is no shard, a shard is empty, or an index lies outside ``labels``.

    Example:
        >>> report = partition_report([np.array([0, 1]), np.array([2, 3])], np.array(["a", "a", "b", "b"]))
        >>> report.counts.tolist(), report.mean_total_variation
        ([[2, 0], [0, 2]], 0.5)
    """
    if not shards or any(len(shard) == 0 for shard in shards):
        raise ValueError(f"shards of sizes {[len(shard) for shard in shards]}: every worker needs at least one sample")
    lowest, highest = min(int(shard.min()) for shard in shards), max(int(shard.max()) for shard in shards)
    if lowest < 0 or highest >= len(labels):
        raise ValueError(
            f"shards index samples {lowest} to {highest}, there are {len(labels)} labels: "
            "pass the labels of the dataset that was partitioned"
        )
    codes, values = encode_labels(np.asarray(labels))
    counts = np.stack([np.bincount(codes[shard], minlength=len(values)) for shard in shards])
    return PartitionReport(counts.astype(np.int64), tuple(values))


def _hypergeometric_deviation(total: int, marked: int, drawn: int) -> float:
    """E|X - EX| for X = marked items among ``drawn`` of ``total`` without replacement."""
    if marked in (0, total) or drawn in (0, total):
        return 0.0
    above = marked * drawn // total + 1
    if above > min(marked, drawn):
        return 0.0
    log_probability = (
        _log_binomial(marked, above) + _log_binomial(total - marked, drawn - above) - _log_binomial(total, drawn)
    )
    return 2.0 * above * (total - marked - drawn + above) / total * math.exp(log_probability)


def _log_binomial(n: int, k: int) -> float:
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)
