"""Curves and dendrograms in characters for a terminal, and as PNG and SVG, the same bytes each time. Reads no runs.
Imports matplotlib only when it draws a picture.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rich.color import Color
from rich.style import Style
from rich.text import Text

from samovar.runs.curves import Line, Panel
from samovar.runs.dendrogram import Dendrogram, Leaf

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_COLOURS = ("cyan", "magenta", "yellow", "green", "red", "blue", "bright_white", "bright_cyan", "bright_magenta")
_BLANK = 0x2800
_DOTS = ((0x01, 0x02, 0x04, 0x40), (0x08, 0x10, 0x20, 0x80))
"""The bit of each of the two by four dots of a braille character, by column and row, as Unicode numbers them."""
_UP, _DOWN, _LEFT, _RIGHT = 1, 2, 4, 8
_SHAPES = " ╵╷│╴┘┐┤╶└┌├─┴┬┼"
"""The character with strokes in some of these directions, by their sum."""
_LOW_RGB, _HIGH_RGB = (70, 110, 200), (230, 120, 40)
_MAX_IN_LEGEND = 20


@dataclass(frozen=True)
class _Frame:
    """The ranges of the axes, and how many dots they have."""

    left: float
    right: float
    bottom: float
    top: float
    num_columns: int
    num_rows: int

    @classmethod
    def around(cls, lines: Sequence[Line], width: int, height: int) -> "_Frame":
        steps = [step for line in lines for step in line.steps]
        values = [value for line in lines for value in line.values]
        return cls(min(steps), max(steps), min(values), max(values), 2 * width, 4 * height)

    def place(self, step: float, value: float) -> tuple[float, float]:
        x = _share(step, self.left, self.right) * (self.num_columns - 1)
        y = (1 - _share(value, self.bottom, self.top)) * (self.num_rows - 1)
        return x, y


def _share(number: float, low: float, high: float) -> float:
    return 0.5 if high == low else (number - low) / (high - low)


def draw_lines(title: str, lines: Sequence[Line], width: int = 72, height: int = 14) -> Text:
    """The curves in a frame with the ends of both axes, then one line of legend per curve."""
    frame = _Frame.around(lines, width, height)
    bits = [[0] * width for _ in range(height)]
    owners: list[list[int | None]] = [[None] * width for _ in range(height)]
    for number, line in enumerate(lines):
        for x, y in _dots(line, frame):
            bits[y // 4][x // 2] |= _DOTS[x % 2][y % 4]
            owners[y // 4][x // 2] = number
    top, bottom = f"{frame.top:.4g}", f"{frame.bottom:.4g}"
    margin = max(len(top), len(bottom))
    text = Text(end="")
    text.append(f"{title}\n", style="bold")
    for row in range(height):
        axis = top if row == 0 else bottom if row == height - 1 else ""
        text.append(f"{axis:>{margin}} │")
        for cell, owner in zip(bits[row], owners[row], strict=True):
            text.append(chr(_BLANK + cell) if cell else " ", style=None if owner is None else _colour(owner))
        text.append("\n")
    left, right = f"{frame.left:g}", f"{frame.right:g}"
    text.append(f"{'':{margin}} └{'─' * width}\n{'':{margin}}  {left}{right:>{width - len(left)}}\n")
    for number, line in enumerate(lines):
        text.append("━━ ", style=_colour(number))
        text.append(f"{line.label}  {line.values[-1]:.5g}\n")
    return text


def _colour(number: int) -> str:
    return _COLOURS[number % len(_COLOURS)]


def _dots(line: Line, frame: _Frame) -> Iterator[tuple[int, int]]:
    """Every dot of the straight lines between the points."""
    points = [frame.place(*point) for point in zip(line.steps, line.values, strict=True)]
    for (x, y), (next_x, next_y) in zip(points, [*points[1:], points[-1]], strict=True):
        num_steps = max(1, math.ceil(max(abs(next_x - x), abs(next_y - y))))
        for step in range(num_steps + 1):
            share = step / num_steps
            yield round(x + (next_x - x) * share), round(y + (next_y - y) * share)


def draw_dendrogram(tree: Dendrogram, width: int = 40) -> Text:
    """The root at the left, one line per leaf; branches join where their distance is."""
    cells = [[0] * (width + 1) for _ in tree.leaves]

    def column(height: float) -> int:
        return width if tree.height == 0 else round(width * (1 - height / tree.height))

    for merge in tree.merges:
        joint, first, second = column(merge.height), round(merge.first_row), round(merge.second_row)
        for row, height in ((first, merge.first_height), (second, merge.second_height)):
            _stroke(cells[row], joint, column(height))
        for row in range(first, second):
            cells[row][joint] |= _DOWN
            cells[row + 1][joint] |= _UP
    text = Text()
    for strokes, leaf in zip(cells, tree.leaves, strict=True):
        text.append("".join(_SHAPES[stroke] for stroke in strokes))
        text.append(f" {leaf.label}\n", style=_style(tree, leaf))
    text.append(f"distances: {tree.height:.3g} at the left, 0 at the right (share of the keys that differ)\n", "dim")
    return text


def _stroke(row: list[int], start: int, end: int) -> None:
    for place in range(start, end):
        row[place] |= _RIGHT
        row[place + 1] |= _LEFT


def _style(tree: Dendrogram, leaf: Leaf) -> Style | str:
    share = tree.share(leaf)
    if share is None:
        return ""
    red, green, blue = (low + (high - low) * share for low, high in zip(_LOW_RGB, _HIGH_RGB, strict=True))
    return Style(color=Color.from_rgb(red, green, blue))


def draw_panels(panels: Sequence[Panel]) -> "Figure":
    """One row per panel."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 4 * len(panels)), layout="constrained")
    for axes, panel in zip(figure.subplots(len(panels), 1, squeeze=False)[:, 0], panels, strict=True):
        for line in panel.lines:
            axes.plot(line.steps, line.values, ".-", markersize=3, linewidth=1, label=line.label)
        axes.set_ylabel(panel.metric)
        axes.grid(alpha=0.3)
        if len(panel.lines) <= _MAX_IN_LEGEND:
            axes.legend(fontsize="small")
    return figure


def draw_tree(tree: Dendrogram) -> "Figure":
    """Leaves from top to bottom, distances from right to left, and names in the colour of the metric."""
    from matplotlib import colormaps
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, max(2.0, 0.3 * len(tree.leaves) + 1)), layout="constrained")
    axes = figure.add_subplot(xlabel="share of keys that differ")
    for merge in tree.merges:
        xs = [merge.first_height, merge.height, merge.height, merge.second_height]
        axes.plot(xs, [merge.first_row, merge.first_row, merge.second_row, merge.second_row], color="0.4", linewidth=1)
    axes.invert_yaxis()
    axes.set_xlim(max(tree.height * 1.02, 1e-9), 0)
    axes.yaxis.tick_right()
    axes.set_yticks(range(len(tree.leaves)), [leaf.label for leaf in tree.leaves], fontsize="small")
    for text, leaf in zip(axes.get_yticklabels(), tree.leaves, strict=True):
        share: Any = tree.share(leaf)
        if share is not None:
            text.set_color(colormaps["viridis"](0.9 * (1 - share)))
    if tree.metric is not None:
        axes.set_title(f"dark: high {tree.metric}", fontsize="small")
    return figure
