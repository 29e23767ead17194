"""A chart of scores beside peers'. Every number comes from the tables in docs/how_good.md.

python -m docs.pictures.learning [FOLDER]
"""

import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from docs.pictures.theme import FOLDER, Theme, save
from matplotlib.axes import Axes
from matplotlib.figure import Figure

PAGE = FOLDER.parent / "how_good.md"
OWN = "Samovar"
LEFT_OUT = ("Samovar,", "base rate")
WIDEST = 40.0
"""Percent: bars and intervals end here."""


@dataclass(frozen=True)
class Bar:
    """How much worse a peer's score is than Samovar's, in percent of Samovar's."""

    title: str
    """Streams or tables."""
    data: str
    contestant: str
    middle: float
    low: float
    high: float


def read_bars(page: str) -> Iterator[Bar]:
    title = data = ""
    own = 0.0
    for line in page.splitlines():
        if line.startswith("### "):
            title = line[4:].partition(":")[0]
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if not line.startswith("| ") or len(cells) != 7 or not (cells[1] == OWN or cells[4].endswith("]")):
            continue  # a heading, or another table that is as wide
        data = cells[0].partition(",")[0].strip("*") or data
        contestant, score = cells[1].partition(":")[0], cells[2].strip("*").replace(",", "")
        if contestant == OWN:
            own = float(score)
        elif not contestant.startswith(LEFT_OUT):
            found = [float(each.replace(",", "")) for each in re.findall(r"[+-][\d,]+\.\d+", cells[4])]
            middle, low, high = (100 * each / own for each in found)
            yield Bar(title, data, contestant, middle, low, high)


def draw(theme: Theme, bars: Sequence[Bar]) -> Figure:
    figure = Figure(figsize=(8.4, 0.4 + 0.22 * (len(bars) + 2)))
    titles = list(dict.fromkeys(bar.title for bar in bars))
    grid = figure.add_gridspec(
        len(titles), 1, height_ratios=[sum(bar.title == title for bar in bars) for title in titles],
        left=0.42, right=0.97, top=0.97, bottom=0.07, hspace=0.16,
    )  # fmt: skip
    for place, title in enumerate(titles):
        draw_panel(figure.add_subplot(grid[place]), theme, [bar for bar in bars if bar.title == title])
    figure.text(0.01, 0.008, "How much higher (worse) the peer's score is than that of Samovar's defaults; "
                "lines are 95 % intervals", fontsize="small")  # fmt: skip
    return figure


def draw_panel(axes: Axes, theme: Theme, bars: Sequence[Bar]) -> None:
    places = list(range(len(bars)))
    colors = [theme.faint if bar.low <= 0 <= bar.high else theme.good if bar.middle > 0 else theme.bad for bar in bars]
    shown = [_limit(bar.middle) for bar in bars]
    axes.barh(places, shown, color=colors, height=0.66)
    axes.hlines(
        places, [_limit(bar.low) for bar in bars], [_limit(bar.high) for bar in bars], theme.text, linewidth=0.8
    )
    for place, bar in enumerate(bars):
        end = _limit(max(bar.high, 0))
        axes.annotate(f"{bar.middle:+.1f} %", (end, place), (4, 0), textcoords="offset points", va="center", fontsize=8)
        if place == 0 or bars[place - 1].data != bar.data:
            axes.annotate(bar.data, (0.01, place), xycoords=("figure fraction", "data"), va="center", weight="bold")
            axes.axhline(place - 0.5, color=theme.faint, linewidth=0.6, xmin=-0.75, clip_on=False)
    axes.set_yticks(places, [f"vs. {bar.contestant}" for bar in bars], fontsize=8)
    axes.set(xlim=(-WIDEST, WIDEST * 1.2), ylim=(len(bars) - 0.4, -0.6))
    axes.set_xticks([-20, 0, 20], [f"{bars[0].title}: peer better", "same", "Samovar better"], fontsize=8)
    axes.axvline(0, color=theme.text, linewidth=0.8)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)


def _limit(percent: float) -> float:
    return min(max(percent, -WIDEST), WIDEST)


def main(folder: Path = FOLDER) -> list[Path]:
    return save(partial(draw, bars=list(read_bars(PAGE.read_text()))), "learning", folder)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER)
