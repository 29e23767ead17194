"""Curves drawn with braille dots, two by four in a character. Knows numbers and colours, and nothing of runs.

A dendrogram in characters: the root at the left, a line a leaf, where branches meet is how far apart they are.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.color import Color
from rich.style import Style
from rich.text import Text

from samovar.runs.tree import Dendrogram, Leaf

COLOURS = ("cyan", "magenta", "yellow", "green", "red", "blue", "bright_white", "bright_cyan", "bright_magenta")
_BLANK = 0x2800
_DOTS = ((0x01, 0x02, 0x04, 0x40), (0x08, 0x10, 0x20, 0x80))
"""The bit of a dot, by column and row, as Unicode numbers them."""


@dataclass(frozen=True)
class Line:
    label: str
    steps: Sequence[float]
    values: Sequence[float]


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
    """The curves in a frame with the ends of both axes, then a line of the legend for each."""
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
    return COLOURS[number % len(COLOURS)]


def _dots(line: Line, frame: _Frame) -> Iterator[tuple[int, int]]:
    """Every dot of the straight pieces between the points."""
    points = [frame.place(*point) for point in zip(line.steps, line.values, strict=True)]
    for (x, y), (next_x, next_y) in zip(points, [*points[1:], points[-1]], strict=True):
        num_steps = max(1, math.ceil(max(abs(next_x - x), abs(next_y - y))))
        for step in range(num_steps + 1):
            share = step / num_steps
            yield round(x + (next_x - x) * share), round(y + (next_y - y) * share)


_UP, _DOWN, _LEFT, _RIGHT = 1, 2, 4, 8
_SHAPES = " ╵╷│╴┘┐┤╶└┌├─┴┬┼"
"""The character that has strokes in these directions, by their sum."""
_LOW, _HIGH = (70, 110, 200), (230, 120, 40)


def draw_dendrogram(tree: Dendrogram, width: int = 40) -> Text:
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
    red, green, blue = (low + (high - low) * share for low, high in zip(_LOW, _HIGH, strict=True))
    return Style(color=Color.from_rgb(red, green, blue))
