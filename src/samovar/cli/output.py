"""What commands print: tables or CSV on stdout, one JSON document with `--json`, notes and progress on stderr. Knows no
command.

Text is printed verbatim: `[red]` sets no color and `:tea:` draws no emoji. Only a terminal gets colors, unless NO_COLOR
is set. Control characters in names and messages, which may come from a stranger's files, are shown, not sent to the
terminal.
"""

import ctypes
import json
import math
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from samovar.config import MISSING

if TYPE_CHECKING:
    from rich.progress import Progress as Bars

_VERBATIM: dict[str, Any] = {"markup": False, "emoji": False, "highlight": False, "soft_wrap": True}
_PIPED_WIDTH = 200  # a file has no width, and a wrapped table cannot be searched


# All of C0 but tab and newline, DEL, C1, and the characters that reorder text or hide it.
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff]")


def show_controls(text: str) -> str:
    """A text that a terminal can only show: `␛` for an escape, `�` for what has no picture."""
    return _CONTROLS.sub(_picture, text)


def _picture(found: re.Match[str]) -> str:
    number = ord(found[0])
    return chr(0x2400 + number) if number < 0x20 else "␡" if number == 0x7F else "�"


class _ShowingConsole(Console):
    """Of all that it renders, only its own styles and movements reach the terminal as escape codes."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            is_text = not segment.control and _CONTROLS.search(segment.text) is not None
            yield segment._replace(text=show_controls(segment.text)) if is_text else segment


def open_console() -> Console:
    return _ShowingConsole(**_VERBATIM, width=None if sys.stdout.isatty() else _PIPED_WIDTH)


def open_stderr() -> Console:
    return _ShowingConsole(**_VERBATIM, stderr=True)


def print_line(line: object) -> None:
    """Print a line on stdout."""
    print(show_controls(str(line)), flush=True)


def print_notes(notes: Iterable[str], console: Console | None = None) -> None:
    console = console or open_stderr()
    for note in notes:
        console.print(note)


def count_of(number: int, noun: str, ending: str = "s") -> str:
    """`1 file`, `2 files`."""
    return f"{number} {noun}{'' if number == 1 else ending}"


# Tables and CSV


def print_table(
    *,
    to_csv: Callable[[], str],
    to_json: Callable[[], Any],
    show: Callable[[], None],
    csv_file: Path | None,
    as_json: bool,
    is_drawn: bool = False,
) -> None:
    """Print rows in the form that was asked for, else `show` them on a terminal and print CSV to a pipe.

    `is_drawn` means that they went into a picture, and need not be printed."""
    if csv_file is not None:
        from samovar.store import save_text

        save_text(csv_file, to_csv())
    if as_json:
        print_json(to_json())
    elif csv_file is not None or is_drawn:
        return
    elif sys.stdout.isatty():
        show()
    else:
        print(show_controls(to_csv()), end="")


# JSON


def print_json(answer: Any) -> None:
    """Numbers stay numbers, 64-bit ids included; NaN and infinities, which JSON does not have, become null."""
    text = json.dumps(_plain(answer), indent=2, ensure_ascii=False, allow_nan=False)
    print(_CONTROLS.sub(lambda found: f"\\u{ord(found[0]):04x}", text), flush=True)


def _plain(value: Any) -> Any:
    """A missing value is left out of an object, and null in a list."""
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in value.items() if each is not MISSING}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is MISSING:
        return None
    return value if isinstance(value, str | int | None) else str(value)


@contextmanager
def reserve_stdout(is_reserved: bool) -> Iterator[None]:
    """While the block runs, send to stderr what scripts, libraries and child processes print, so that stdout holds only
    the JSON document."""
    if not is_reserved:
        yield
        return
    with redirect_stdout(sys.stderr), _redirect_descriptor(1, 2):
        yield


@contextmanager
def _redirect_descriptor(descriptor: int, target: int) -> Iterator[None]:
    """For C code and child processes, which ignore `sys.stdout`."""
    kept = os.dup(descriptor)
    os.dup2(target, descriptor)
    try:
        yield
    finally:
        ctypes.CDLL(None).fflush(None)  # C code may still hold text in its buffers
        os.dup2(kept, descriptor)
        os.close(kept)


# Progress


def make_bars(console: Console, amount: str) -> "Bars":
    """Spinner, description, bar, `amount` (a format of the task) and elapsed time; gone when it is over."""
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TextColumn(amount), TimeElapsedColumn()
    return Progress(*columns, console=console, transient=True)
