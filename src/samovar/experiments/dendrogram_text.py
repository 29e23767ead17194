"""A dendrogram in characters: the root at the left, a line a leaf, where branches meet is how far apart they are."""

from rich.color import Color
from rich.style import Style
from rich.text import Text

from samovar.experiments.dendrogram import Dendrogram, Leaf

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
