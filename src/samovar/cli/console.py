"""Where commands print tables."""

import sys

from rich.console import Console

_PIPED_WIDTH = 200  # a file has no width of its own, and a wrapped table cannot be searched


def open_console() -> Console:
    return Console(highlight=False, soft_wrap=True, width=None if sys.stdout.isatty() else _PIPED_WIDTH)
