"""Colors of the pictures, one set per GitHub theme, and how a figure becomes a file. Draws nothing itself."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.figure import Figure

FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class Theme:
    suffix: str
    text: str
    faint: str
    good: str
    bad: str
    segments: tuple[str, ...]
    """Colors of things that follow each other."""


THEMES = (
    Theme("", "#1f2328", "#d1d9e0", "#0969da", "#bc4c00", ("#0969da", "#8250df", "#1a7f37", "#bf3989")),
    Theme(".dark", "#e6edf3", "#3d444d", "#4493f8", "#db6d28", ("#4493f8", "#ab7df8", "#3fb950", "#db61a2")),
)


def save(draw: Callable[[Theme], Figure], name: str, folder: Path) -> list[Path]:
    """One SVG per theme, with a transparent background; the same bytes for the same numbers."""
    paths = []
    for theme in THEMES:
        colors: dict[Any, Any] = dict.fromkeys(
            ("text.color", "axes.labelcolor", "xtick.color", "ytick.color"), theme.text
        )
        # Without the salt and the date an SVG holds random names and the time.
        with matplotlib.rc_context({**colors, "svg.hashsalt": "samovar", "svg.fonttype": "none", "font.size": 10}):
            paths.append(folder / f"{name}{theme.suffix}.svg")
            draw(theme).savefig(paths[-1], format="svg", transparent=True, metadata={"Date": None})
    return paths
