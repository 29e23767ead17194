"""A bar chart of speeds as ratios to peers. Every number comes from the table in benchmarks/README.md.

python -m docs.pictures.speed [FOLDER]
"""

import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from docs.pictures.theme import FOLDER, Theme, save
from matplotlib.figure import Figure

TABLE = FOLDER.parents[1] / "benchmarks" / "README.md"


@dataclass(frozen=True)
class Row:
    """A line of the table, with the headings that apply to it."""

    report: str
    what: str
    contestant: str
    peer: str
    ratio: float


@dataclass(frozen=True)
class Bar:
    task: str
    """Said once for all bars below it that have none."""
    label: str
    report: str
    what: str
    contestant: str
    peer: str
    other: str = ""
    """A contestant of the same section. If given, the bar is the ratio to it, through the peer of both."""


_FULL = "full tables, B = 1024, single ids"
_EVERY_BYTE = "every byte touched"
BARS = (
    Bar("Train a click model from disk", "torch and Arrow", "training", "from disk", "Samovar", "torch, batched"),
    Bar("", "FBGEMM and Arrow", "training", "from disk", "Samovar", "FBGEMM, batched"),
    Bar("A step of embeddings", "torch EmbeddingBag", "embeddings: Adagrad against torch", _FULL, "Samovar", "torch"),
    Bar("", "FBGEMM, Adagrad", "embeddings: Adagrad against FBGEMM", _FULL, "Samovar", "FBGEMM"),
    Bar("", "FBGEMM, row-wise Adagrad", "embeddings: row-wise", _FULL, "Samovar", "FBGEMM"),
    Bar(
        "Read minibatches", "MosaicML Streaming", "tables", _EVERY_BYTE, "Samovar, 2 parsers", "Streaming, minibatches"
    ),
    Bar("", "batched DataLoader", "tables", _EVERY_BYTE, "Samovar, 2 parsers", "DataLoader, batched"),
    Bar("", "Lance", "tables", _EVERY_BYTE, "Samovar, 2 parsers", "Lance scanner(1024)"),
    Bar("", "litdata, uncompressed", "tables", _EVERY_BYTE, "Samovar uncompressed", "litdata"),
    Bar("Train a net in one call", "skorch", "trainer", "train", "Samovar PytorchTrainer", "hand-written", "skorch"),
    Bar("", "Lightning", "trainer", "train", "Samovar PytorchTrainer", "hand-written", "Lightning over slices"),
    Bar("", "a loop written by hand", "trainer", "train", "Samovar PytorchTrainer", "hand-written"),
    Bar("Save a snapshot", "safetensors", "snapshot", "save + fsync", "Samovar write_state", "safetensors"),
    Bar("Sort and write a log", "DuckDB", "brew", "sort and write", "Samovar brew", "DuckDB"),
)


def read_rows(page: str) -> Iterator[Row]:
    report = what = ""
    for line in page.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if not line.startswith("| ") or len(cells) != 6:
            continue
        if cells[0].startswith("**"):
            report = cells[0].strip("*")
        elif cells[4] and cells[4] != "ratio":
            what = cells[0] or what
            yield Row(report, what, cells[1], cells[3], float(cells[4]))


def find_ratio(rows: Sequence[Row], bar: Bar) -> float:
    """The ratio that the table gives to a bar.

    Raises:
        LookupError: The table has no such line, or several.
    """

    def find(contestant: str) -> float:
        found = [
            row.ratio
            for row in rows
            if row.report.startswith(bar.report)
            and row.what.startswith(bar.what)
            and row.contestant == contestant
            and row.peer.startswith(bar.peer)
        ]
        if len(found) != 1:
            raise LookupError(f"{len(found)} lines of the table fit the bar {bar.label!r}, expected one")
        return found[0]

    return find(bar.contestant) / find(bar.other) if bar.other else find(bar.contestant)


def read_machine(page: str) -> str:
    """When and on what it was measured, from the line above the table."""
    line = next(line for line in page.splitlines() if line.startswith("- ") and " UTC)" in line)
    dates = sorted(set(re.findall(r"\((\d{4}-\d\d-\d\d) ", line)))
    machine = line.rpartition(" UTC): ")[2]
    return f"{machine.partition(', Linux')[0]}, {dates[-1]}"


def draw(theme: Theme, ratios: Sequence[float], machine: str) -> Figure:
    figure = Figure(figsize=(8.4, 4.8))
    axes = figure.add_axes((0.53, 0.14, 0.46, 0.85))
    places = list(range(len(BARS)))
    colors = [theme.good if ratio >= 1 else theme.bad for ratio in ratios]
    axes.barh(places, [ratio - 1 for ratio in ratios], left=1, color=colors, height=0.66)
    for place, ratio in zip(places, ratios, strict=True):
        shown = f"{ratio:.2f}" if ratio < 2 else f"{ratio:.1f}"
        axes.annotate(f"{shown}x", (max(ratio, 1), place), (4, 0), textcoords="offset points", va="center")
    for place, bar in enumerate(BARS):
        if bar.task:
            axes.annotate(bar.task, (0.01, place), xycoords=("figure fraction", "data"), va="center", weight="bold")
        if bar.task and place:
            axes.axhline(place - 0.5, color=theme.faint, linewidth=0.6, xmin=-1.12, clip_on=False)
    axes.set_yticks(places, [f"vs. {bar.label}" for bar in BARS])
    axes.set(xscale="log", xlim=(0.55, 18), ylim=(len(BARS) - 0.4, -0.6))
    axes.set_xticks([1, 2, 4, 8], ["same", "2x", "4x", "8x"])
    axes.minorticks_off()
    axes.axvline(1, color=theme.text, linewidth=0.8)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    figure.text(0.01, 0.015, f"Samovar's speed as a ratio to its peer's in the same run. {machine}", fontsize="small")
    return figure


def main(folder: Path = FOLDER) -> list[Path]:
    page = TABLE.read_text()
    rows = list(read_rows(page))
    ratios = [find_ratio(rows, bar) for bar in BARS]
    return save(partial(draw, ratios=ratios, machine=read_machine(page)), "speed", folder)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER)
