"""Where commands print: tables on stdout; progress, notes and errors on stderr. Both know whether a terminal reads
them, and whether it wants colours (NO_COLOR). What is printed is data, and shown as it is: `[red]` is no colour, and
`:tea:` no picture.
"""

import sys
from collections.abc import Iterable
from typing import Any

from rich.console import Console

_AS_IT_IS: dict[str, Any] = {"markup": False, "emoji": False, "highlight": False, "soft_wrap": True}
_PIPED_WIDTH = 200  # a file has no width of its own, and a wrapped table cannot be searched


def open_console() -> Console:
    return Console(**_AS_IT_IS, width=None if sys.stdout.isatty() else _PIPED_WIDTH)


def open_notes() -> Console:
    return Console(**_AS_IT_IS, stderr=True)


def print_notes(notes: Iterable[str], console: Console | None = None) -> None:
    console = console or open_notes()
    for note in notes:
        console.print(note)
