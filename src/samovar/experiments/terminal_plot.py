"""Curves drawn with braille dots, two by four in a character. Knows numbers and colours, and nothing of runs."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.text import Text

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
